// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sides of a comparison of systems, A, B, C ...: what of the command line is said of all and what of one.
#include <string>
#include <vector>

#include "answers/question.h"
#include "app/console/cli.h"
#include "topologies/system.h"

namespace tandem::app {

/// One machine with what is asked of it.
struct Side {
  char letter = 'A';
  std::string system;  ///< name or file
  System::Sets sets;
  Arguments arguments;  ///< as of predict
};

/// Of a verb with question_options() and --set-b. A value may begin with whom it is said of ("B:device=t4",
/// "A:1,2,4"); else it is said of all. One system alone is compared with itself changed: then --without,
/// --with-bridges and --swap are B's, and --place where it is the only change. Throws UsageError.
std::vector<Side> read_sides(const Arguments& arguments);

/// What a side is asked about a model, in options of a question: its changes are --set, in order.
Values values_of(const Side& side, const std::string& model);

/// Makes the options of `flags` that a side may have for itself repeatable.
void let_sides_say(std::vector<Option>& flags);

}  // namespace tandem::app

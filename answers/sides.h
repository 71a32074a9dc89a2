// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sides A, B, C ... of a comparison of systems: which options apply to all and which to one.
#include <string>
#include <vector>

#include "answers/asking.h"
#include "answers/question.h"
#include "topologies/system.h"

namespace tandem::answers {

/// One machine and its question.
struct Side {
  char letter = 'A';
  std::string system;  ///< name or file
  System::Sets sets;
  Values values;  ///< as of predict
};

/// Of the options of a comparison of these systems. A value may begin with the side it applies to
/// ("B:device=t4", "A:1,2,4"); else it applies to all. A single system is compared with its changed version:
/// then --without, --with-bridges and --swap are B's, and --place if it is the only change. Throws
/// UsageError.
std::vector<Side> read_sides(const Values& values, std::vector<std::string> systems);

/// How they read a question's file: it describes all sides, its machine with all changes, and what the
/// command line says of one side leaves the file's value to the others.
FileRules rules_of_sides();

/// A side's question about a model, as options of a question: its changes are --set, in order.
Values values_of(const Side& side, const std::string& model);

/// Makes the options in `flags` that may differ between sides repeatable.
void let_sides_say(std::vector<Option>& flags);

}  // namespace tandem::answers

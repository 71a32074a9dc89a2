// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands as a shell takes them.
#include <string>
#include <vector>

#include "answers/values.h"

namespace tandem::answers {

/// `tandem predict` with those of a question's options that differ from the defaults, as a shell takes it; ""
/// where the model or machine is a document without a file.
std::string predict_line(const Values& question);

/// Quoted for a POSIX shell.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace tandem::answers

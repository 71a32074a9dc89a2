// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions of the command line.
#include "answers/asking.h"
#include "answers/question.h"
#include "app/console/cli.h"

namespace tandem::app {

/// Data is opened by the executor's readers, profiles by calibration's; notes go to stderr unless --quiet.
Hooks hooks(const Arguments& arguments);

/// For a verb with some of a question's options among its `flags`: its command line, and what the file of
/// --question says where the command line is silent. A note names what the file says and the verb lacks.
/// Throws InputError and UsageError.
Arguments with_question(const Arguments& arguments, const std::vector<Option>& flags,
                        const FileRules& rules = {});

/// The question of the options; with --question FILE that of the file, with other given options replacing the
/// file's. Throws InputError and UsageError.
Question read_question(const Arguments& arguments);

}  // namespace tandem::app

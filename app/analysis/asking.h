// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions of the command line.
#include "answers/question.h"
#include "app/console/cli.h"

namespace tandem::app {

/// Data is opened by the executor's readers, profiles by calibration's; notes go to stderr unless --quiet.
Hooks hooks(const Arguments& arguments);

/// --question FILE with its help.
Option question_flag();

/// The question of the options; with --question FILE that of the file, with other given options replacing the
/// file's. Throws InputError and UsageError.
Question read_question(const Arguments& arguments);

}  // namespace tandem::app

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sweeps of the command line.
#include <vector>

#include "app/console/cli.h"
#include "sweep/sweep.h"

namespace tandem::app {

/// All options of `tandem sweep`.
std::vector<Option> sweep_flags();

/// Refuses an --out that cannot be a sweep's file, as check_out() does and for what is no regular file.
void check_database_out(const Arguments& arguments);

/// What `tandem sweep` without a further word is asked. Throws UsageError and InputError.
sweep::SweepQuestion sweep_question(const Arguments& arguments);

}  // namespace tandem::app

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sweep's question from options.
#include <vector>

#include "answers/asking.h"
#include "sweep/sweep.h"

namespace tandem::sweep {

/// Options of a sweep, all of which may have several values, without those of how it is shown.
std::vector<Option> sweep_options();

/// SweepQuestion::stop, ::progress and ::others are left as they are. `threads`: how many unless --threads
/// says otherwise. Throws UsageError and InputError.
SweepQuestion read_sweep_question(const Values& given, const Hooks& hooks, int64_t threads);

}  // namespace tandem::sweep

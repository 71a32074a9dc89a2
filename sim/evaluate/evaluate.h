// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plan in, Trace out. `events` is the reference; `sweep` and `folded` are optimisations proven equal by
// tests. Any thread may call; a Plan is only read.
#include "sim/evaluate/trace.h"
#include "sim/plan/plan.h"

namespace tandem::sim {

/// Sweep where allowed (folded when nothing differs between instances), else events; says why in
/// Trace::reason.
Trace evaluate(const Plan& plan, const EvaluateOptions& options);

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Max-plus evaluation of static programs: an op at a time, for all instances at once. Any thread may call; a
// Plan is only read.
#include "sim/evaluate/trace.h"
#include "sim/plan/plan.h"

namespace tandem::sim {

/// Requires is_static(program) (throws ProgramError) and no two transfers of different groups or lanes that
/// share a resource at overlapping times; contention() tells (sim/evaluate/contention.h).
Trace run_sweep(const Plan& plan, const EvaluateOptions& options);
/// The same over one row per role, where all instances take equal times: requires what_differs() to be ""
/// (sim/evaluate/fold.h).
Trace run_folded(const Plan& plan, const EvaluateOptions& options);

}  // namespace tandem::sim

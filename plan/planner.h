// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes plans: every machine is asked the same work, and ranked.
#include "plan/plan.h"

namespace tandem::plan {

/// Finds the best way for each system and number of nodes by bounds (answers/way_search.h), then predicts
/// machines in the order of the best that each could do by the aim, until what is not predicted cannot be
/// among the first `top`. Nothing is
/// offloaded to a host's memory. Failures are those of plan/faults.h unless the training names its own. The
/// rate's interval, what failures leave, prices and power go into each result's. Any thread may call. The
/// result depends on `threads` in nothing. Throws InputError where nothing can train the model, naming what
/// the nearest lacks, and for limits that nothing can keep to: "needs at least 1,900 nodes".
Plan make_plan(const PlanQuestion& question);

}  // namespace tandem::plan

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several jobs on one machine: their Plans as one, so that their transfers share links.
#include <vector>

#include "sim/plan/plan.h"

namespace tandem::sim {

/// `main` is measured; the others start with it and repeat until it has ended. Resources are the same when
/// their names are. A job's roles keep their order after those of the jobs before it and are called
/// "beside1 worker" and so on. Cost: O(roles, ops, transfers and resources of all).
Plan side_by_side(const Plan& main, const std::vector<Plan>& others);

}  // namespace tandem::sim

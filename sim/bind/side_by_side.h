// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several jobs on one machine: their Plans as one, so that their transfers share links.
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// `main` is measured; the others start with it and repeat until it has ended. Resources are the same when
/// their names are. A job's roles keep their order after those of the jobs before it and are called
/// "beside1 worker" and so on. Cost: O(roles, ops, transfers and resources of all).
BoundProgram side_by_side(const BoundProgram& main, const std::vector<BoundProgram>& others);

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages that a bound Program sends along its channels, and what stores do with them: which vertices
// and how many bytes; sim/cost/costs.h prices them.
#include <memory>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/cost/costs.h"

namespace tandem::sim {

/// `where`: vertex of each instance, per role; the ways between them are connected. The plan's resources are
/// those of `costs`. A message costs O(1) after the first on its way.
std::shared_ptr<BoundProgram::Messages> bound_messages(std::shared_ptr<const Program> program,
                                                       std::shared_ptr<Costs> costs,
                                                       std::vector<std::vector<VertexId>> where);

}  // namespace tandem::sim

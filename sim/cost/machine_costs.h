// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs by measurements of one machine: kernels, copies, collectives and messages as the executor ran them
// there.
#include <memory>

#include "sim/cost/costs.h"
#include "sim/cost/machine.h"

namespace tandem::sim {

/// Host times are none: measured kernels hold them. Links of the system count where nodes are joined by them.
std::shared_ptr<Costs> machine_costs(const CostInput& input, std::shared_ptr<const MachineProfile> machine);

}  // namespace tandem::sim

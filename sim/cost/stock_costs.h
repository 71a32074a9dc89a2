// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs by descriptions: kernels by KernelCost, links by LinkCost, the host by the scheme's recipe, the
// framework by its preset's Overheads. Kernels may have been measured instead.
#include <memory>

#include "sim/cost/costs.h"
#include "sim/cost/machine.h"

namespace tandem::sim {

/// `input.profile`: one of kernel costs. Throws InputError where it cannot be read.
/// `measured`: of a GPU such as the system has, in place of that profile. What its kernels took holds what
/// issuing them took, so that hosts take no time, and each device has its own GPU.
std::shared_ptr<Costs> stock_costs(const CostInput& input,
                                   std::shared_ptr<const MachineProfile> measured = nullptr);

}  // namespace tandem::sim

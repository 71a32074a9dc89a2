// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs by descriptions: kernels by KernelCost, links by LinkCost, the host by the scheme's recipe, the
// framework by its preset's Overheads.
#include <memory>

#include "sim/cost/costs.h"

namespace tandem::sim {

/// `input.profile`: one of kernel costs. Throws InputError where it cannot be read.
std::shared_ptr<Costs> stock_costs(const CostInput& input);

}  // namespace tandem::sim

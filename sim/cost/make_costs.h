// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which room prices: stock costs, or those of a machine that was measured.
#include <memory>

#include "sim/cost/costs.h"

namespace tandem::sim {

/// By the input's profile. Throws InputError for one that cannot be read.
std::shared_ptr<Costs> make_costs(const CostInput& input);

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/make_costs.h"

#include "sim/cost/machine.h"
#include "sim/cost/machine_costs.h"
#include "sim/cost/stock_costs.h"

namespace tandem::sim {

std::shared_ptr<Costs> make_costs(const CostInput& input) {
  if (auto machine = MachineProfile::find(input.profile, input.job.precision))
    return machine_costs(input, std::move(machine));
  return stock_costs(input);
}

}  // namespace tandem::sim

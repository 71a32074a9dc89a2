// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/make_costs.h"

#include "sim/cost/machine.h"
#include "sim/cost/machine_costs.h"
#include "sim/cost/stock_costs.h"

namespace tandem::sim {

std::shared_ptr<Costs> make_costs(const CostInput& input) {
  auto machine = MachineProfile::find(input.profile, input.job.precision);
  if (!machine) return stock_costs(input);
  // A system of GPUs is another machine than the one that was measured, with other links.
  const bool gpus = input.system->device(input.system->accelerator(0)).kind == Device::Kind::gpu;
  return machine->apart() && gpus ? stock_costs(input, std::move(machine))
                                  : machine_costs(input, std::move(machine));
}

}  // namespace tandem::sim

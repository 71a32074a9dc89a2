// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/make_costs.h"

#include <fmt/format.h>

#include "base/text.h"
#include "sim/cost/machine.h"
#include "sim/cost/machine_costs.h"
#include "sim/cost/stock_costs.h"

namespace tandem::sim {

namespace {

/// Kernels of a GPU say nothing of processors and TPUs, nor the reverse. What "local" stands for is the
/// machine that was measured, whatever that has.
void check_kind(const MachineProfile& machine, const Device& device, const CostInput& input) {
  const bool gpu = device.kind == Device::Kind::gpu;
  if (gpu == machine.apart() || device.name == "local-core") return;
  throw InputError(
      fmt::format("profile {} was measured on {}, and {} is {}: leave out --profile, or name a system of {}",
                  printable(input.profile), machine.apart() ? "a GPU" : "processors", device.name,
                  gpu                                ? "a GPU"
                  : device.kind == Device::Kind::cpu ? "a processor"
                                                     : "a TPU",
                  machine.apart() ? "GPUs" : "processors"));
}

}  // namespace

std::shared_ptr<Costs> make_costs(const CostInput& input) {
  auto machine = MachineProfile::find(input.profile, input.job.precision);
  if (!machine) return stock_costs(input);
  const Device& device = input.system->device(input.system->accelerator(0));
  check_kind(*machine, device, input);
  // A system of GPUs is another machine than the one that was measured, with other links.
  const bool gpus = device.kind == Device::Kind::gpu;
  return machine->apart() && gpus ? stock_costs(input, std::move(machine))
                                  : machine_costs(input, std::move(machine));
}

}  // namespace tandem::sim

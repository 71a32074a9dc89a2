// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/gradient_sums.h"

namespace tandem::exec {

StepPosition position(const RunPlan& plan, StepPosition of_op, int32_t iteration) {
  if (plan.stages().micros() > 1) return of_op;
  const int32_t micro = iteration % plan.micro_batches();
  return {micro == 0, micro + 1 == plan.micro_batches()};
}

/// With offloaded gradients, those of micro-batches that are iterations are summed on the host.
Needs GradientSums::needs(const Asked& a) {
  const bool on_host = a.execution.job.offload.gradients && a.program.micro_batches > 1;
  const bool sums = a.program.micro_batches * a.stages.micros() > 1 && !on_host;
  return {{sums ? summed_apart(a.program, a.stages, a.worker).elements() : 0, &MemoryUse::gradients}};
}

GradientSums::GradientSums(Bench& bench, const ModelMemory& memory)
    : bench_(bench),
      memory_(memory),
      apart_(summed_apart(bench.plan.program(), bench.plan.stages(), bench.instance)),
      sums_(bench.allocate(needs(bench.asked())[0])) {}

void GradientSums::add_up(int64_t begin, int64_t end, StepPosition position, Lane lane) const {
  if (begin >= end || (position.first && position.last)) return;
  float *const made = memory_.gradients_at(begin), *const sum = sums_ + apart_.of(begin, end - begin);
  DeviceSession& device = *bench_.device;
  if (position.first)
    device.copy(sum, made, end - begin, lane);
  else if (!position.last)
    device.accumulate(sum, made, end - begin, lane);
  else
    device.accumulate(made, sum, end - begin, lane);
}

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/limited_clocks.h"

#include "sim/bound/bound_program.h"
#include "topologies/devices/device_power.h"

namespace tandem::sim {

LimitedClocks::Limited LimitedClocks::limited(VertexId at, const Seconds& seconds) const {
  const Device& device = system_.device(at);
  double products = 0, streams = 0, at_best = 0;
  for (const Role& role : program_.roles) {
    if (!role.works()) continue;
    role.ops.each_distinct([&](const Op& op, int64_t runs) {
      if (!launched(op)) return;
      for (const Kernel& k : program_.tasks[op.what].kernels) {
        const double times = static_cast<double>(runs) / op.every;
        (is_product(k.kind) ? products : streams) += seconds(k, at) * times;
        if (!is_product(k.kind)) continue;
        const bool half = precision_ == Precision::fp8 && (k.half || k.kind != KernelKind::gemm);
        const double best = device.product_best(half ? Precision::bf16 : precision_).flops_per_second;
        at_best += times * static_cast<double>(k.flops.n * k.repeat) / best;
      }
    });
  }
  if (products + streams <= 0) return {};
  const double reach = products > 0 && element_bytes(precision_) <= 2 ? at_best / products : 0;
  const double clock = topologies::PowerModel(device).clock(products, streams, reach);
  return {clock, (products + streams) / (products / clock + streams)};
}

double LimitedClocks::slowdown(const Kernel& kernel, VertexId at, const Seconds& seconds) {
  const int32_t device = system_.info(at).device;
  if (device < 0 || system_.device(at).power_share >= 1 || !is_product(kernel.kind)) return 1;
  auto found = known_.find(device);
  if (found == known_.end()) found = known_.emplace(device, limited(at, seconds)).first;
  return 1 / found->second.clock;
}

double LimitedClocks::speed(VertexId at) const {
  const auto found = known_.find(system_.info(at).device);
  return found == known_.end() ? 1 : found->second.speed;
}

}  // namespace tandem::sim

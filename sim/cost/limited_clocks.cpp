// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/limited_clocks.h"

#include "topologies/devices/device_power.h"

namespace tandem::sim {

LimitedClocks::Limited LimitedClocks::limited(VertexId at, const Seconds& seconds) const {
  double products = 0, streams = 0;
  for (const Role& role : program_.roles) {
    if (!role.works()) continue;
    role.ops.each_distinct([&](const Op& op, int64_t runs) {
      if (!launched(op)) return;
      for (const Kernel& k : program_.tasks[op.what].kernels)
        (is_product(k.kind) ? products : streams) += seconds(k, at) * static_cast<double>(runs) / op.every;
    });
  }
  if (products + streams <= 0) return {};
  const double clock = topologies::PowerModel(system_.device(at)).clock(products, streams);
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

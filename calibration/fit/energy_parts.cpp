// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/energy_parts.h"

#include <algorithm>
#include <map>

#include "topologies/devices/device_power.h"

namespace tandem::calibration {

std::vector<std::pair<std::string, double>> energy_parts(const Measurements& m, uint32_t graph) {
  topologies::Device device;
  device.kind = topologies::Device::Kind::gpu;
  device.watts = 1;
  const topologies::PowerModel model(device);
  const double products = model.watts({.products = 1}), streams = model.watts({.streams = 1});
  std::map<std::string, double> of_kind;
  double busy = 0;
  for (const MeasuredKernel& k : m.kernels) {
    if (k.graph != graph || k.workers != 1) continue;
    const double seconds = k.median * static_cast<double>(k.kernel.repeat);
    of_kind[std::string(name(k.kernel.kind))] += seconds * (is_product(k.kernel.kind) ? products : streams);
    busy += seconds;
  }
  if (busy <= 0) return {};
  if (const double rest = m.graphs.at(graph).step_median - busy; rest > 0)
    of_kind["no kernel"] = rest * model.watts({.standing = 1});
  double all = 0;
  for (const auto& [kind, joules] : of_kind) all += joules;
  std::vector<std::pair<std::string, double>> out(of_kind.begin(), of_kind.end());
  for (auto& [kind, joules] : out) joules /= all;
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

}  // namespace tandem::calibration

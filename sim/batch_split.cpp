// SPDX-License-Identifier: Apache-2.0
#include "sim/batch_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "schemes/setup/uneven_batches.h"
#include "sim/bound/placement.h"
#include "topologies/devices/device_power.h"

namespace tandem::sim {

std::vector<int64_t> split_by_speed(const Request& p, const Cluster& cluster, const Program& program,
                                    const std::function<double(int64_t)>& rate_alone) {
  check_takes_uneven(program, p.job.scheme->name);
  std::vector<double> speeds(static_cast<std::size_t>(cluster.devices));
  for (const DeviceSort& sort : device_sorts(*p.system, cluster)) {
    std::map<double, double> known;  // by what faults leave of its speed
    for (const int64_t i : sort.devices) {
      const double left = p.system->speed(used_accelerator(*p.system, cluster, i));
      auto at = known.find(left);
      if (at == known.end()) at = known.emplace(left, rate_alone(i)).first;
      speeds[static_cast<std::size_t>(i)] = at->second;
    }
  }
  return in_proportion(speeds, checked_mul(p.job.batch, cluster.devices, "the samples of a step"));
}

std::string split_text(const Request& p, const Cluster& cluster, const std::vector<int64_t>& samples) {
  std::string out;
  for (const DeviceSort& sort : device_sorts(*p.system, cluster)) {
    int64_t least = INT64_MAX, most = 0;
    for (const int64_t i : sort.devices) {
      least = std::min(least, samples[static_cast<std::size_t>(i)]);
      most = std::max(most, samples[static_cast<std::size_t>(i)]);
    }
    const std::string count = least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most);
    out += fmt::format("{}{}{} on each {}", out.empty() ? "" : ", ", count, out.empty() ? " samples" : "",
                       limited_name(p.system->device(sort.first)));
  }
  return out;
}

}  // namespace tandem::sim

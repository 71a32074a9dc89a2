// SPDX-License-Identifier: Apache-2.0
#include "sim/batch_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/plan/placement.h"

namespace tandem::sim {

std::vector<int64_t> in_proportion(const std::vector<double>& speeds, int64_t total) {
  TANDEM_CHECK(total >= static_cast<int64_t>(speeds.size()));
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<std::pair<double, std::size_t>> rest;
  for (const double speed : speeds) {
    const double wanted = static_cast<double>(total) * speed / sum;
    parts.push_back(std::max<int64_t>(1, static_cast<int64_t>(wanted)));
    rest.emplace_back(wanted - static_cast<double>(parts.back()), rest.size());
  }
  std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % rest.size(), --left) ++parts[rest[i].second];
  // Those that got one sample for less than half of one took it from the largest.
  for (; left < 0; ++left) --*std::max_element(parts.begin(), parts.end());
  return parts;
}

namespace {

void check_scheme(const Prediction& p, const Program& program) {
  if (!program.grid.axes.empty())
    throw InputError(fmt::format(
        "--batch-split speed: {} divides the model over devices, whose replicas have equal batches",
        p.job.scheme->name));
  if (free_running(program))
    throw InputError(fmt::format(
        "--batch-split speed: workers of {} do not wait for each other, so that fast ones train on "
        "more samples as it is",
        p.job.scheme->name));
}

}  // namespace

std::vector<int64_t> split_by_speed(const Prediction& p, const Cluster& cluster, const Program& program,
                                    const std::function<double(int64_t)>& rate_alone) {
  check_scheme(p, program);
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

std::string split_text(const Prediction& p, const Cluster& cluster, const std::vector<int64_t>& samples) {
  std::string out;
  for (const DeviceSort& sort : device_sorts(*p.system, cluster)) {
    int64_t least = INT64_MAX, most = 0;
    for (const int64_t i : sort.devices) {
      least = std::min(least, samples[static_cast<std::size_t>(i)]);
      most = std::max(most, samples[static_cast<std::size_t>(i)]);
    }
    const std::string count = least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most);
    out += fmt::format("{}{}{} on each {}", out.empty() ? "" : ", ", count, out.empty() ? " samples" : "",
                       p.system->device(sort.first).name);
  }
  return out;
}

}  // namespace tandem::sim

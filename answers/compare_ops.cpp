// SPDX-License-Identifier: Apache-2.0
#include "answers/compare_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "answers/labels.h"

namespace tandem::answers {

namespace {

constexpr std::string_view kWaiting = "waiting";  // for others, listed apart from the lane that waits
constexpr std::string_view kLaneNames[] = {"compute", "comm", kWaiting, "copy", "host", "offload", "reload"};

using Seconds = std::map<std::pair<std::string, std::string>, double>;
using Stretches = std::vector<std::pair<double, double>>;

/// Seconds covered by any stretch.
double covered(Stretches all) {
  std::sort(all.begin(), all.end());
  double out = 0, until = -INFINITY;
  for (const auto& [start, end] : all) {
    out += std::max(0.0, end - std::max(start, until));
    until = std::max(until, end);
  }
  return out;
}

/// Time of a key in the iterations of workers that have it.
struct Part {
  double seconds = 0;
  std::set<std::pair<uint32_t, uint32_t>> runs;  ///< (instance, iteration)
};

/// Iterations between averages of models; a timeline may show only those with one.
int64_t period(const Report& report) {
  const std::string every = report_input(report, "scheme.every");
  int64_t out = 1;
  std::from_chars(every.data(), every.data() + every.size(), out);
  return std::max<int64_t>(1, out);
}

/// Seconds of each (lane, label) per worker and iteration. A lane waits while some of its ops wait and none
/// runs; simultaneous waits count once.
Seconds per_iteration(const Report& report) {
  std::map<std::pair<std::string, std::string>, Part> parts;
  std::set<std::pair<uint32_t, uint32_t>> runs;
  std::map<std::pair<std::string, uint32_t>, std::pair<Stretches, Stretches>> lanes;  // runs, runs or waits
  for (const TimelineEntry& e : report.timeline) {
    if (e.role != "worker") continue;
    auto& [busy, any] = lanes[{e.lane, e.instance}];
    any.emplace_back(e.start_seconds, e.end_seconds);
    Part& part = e.waits() ? parts[{std::string(kWaiting), "before " + e.lane}] : parts[{e.lane, e.label}];
    part.runs.emplace(e.instance, e.iteration);
    runs.emplace(e.instance, e.iteration);
    if (e.waits()) continue;
    busy.push_back(any.back());
    part.seconds += std::max(0.0, e.end_seconds - e.start_seconds);
  }
  for (const auto& [lane, stretches] : lanes) {
    const auto waits = parts.find({std::string(kWaiting), "before " + lane.first});
    if (waits != parts.end()) waits->second.seconds += covered(stretches.second) - covered(stretches.first);
  }
  Seconds out;
  const auto every = static_cast<uint32_t>(period(report));
  for (const auto& [key, part] : parts) {
    const bool rare = std::all_of(part.runs.begin(), part.runs.end(),
                                  [&](const auto& run) { return (run.second + 1) % every == 0; });
    const bool periodic = every > 1 && (rare || part.runs.size() < runs.size());
    const double iterations = static_cast<double>(periodic ? part.runs.size() * every : runs.size());
    if (part.seconds > 0) out[key] = part.seconds / iterations;
  }
  return out;
}

}  // namespace

OpComparison compare_ops(const Report& a, const Report& b) {
  const Seconds left = per_iteration(a), right = per_iteration(b);
  if (left.empty() || right.empty()) return {};
  std::map<std::pair<std::string, std::string>, OpPair> all;
  const auto at = [&](const auto& key) -> OpPair& {
    return all.try_emplace(key, OpPair{key.first, key.second}).first->second;
  };
  for (const auto& [key, seconds] : left) at(key).a = seconds;
  for (const auto& [key, seconds] : right) at(key).b = seconds;
  OpComparison out;
  for (const std::string_view lane : kLaneNames) {
    OpPair whole{std::string(lane), ""};
    for (const auto& [key, pair] : all) {
      if (key.first != lane) continue;
      whole.a += pair.a;
      whole.b += pair.b;
      if (lane != "host") out.ops.push_back(pair);  // there, workers wait for others
    }
    if (whole.a > 0 || whole.b > 0) out.lanes.push_back(std::move(whole));
  }
  std::stable_sort(out.ops.begin(), out.ops.end(), [](const OpPair& x, const OpPair& y) {
    return std::abs(x.difference()) > std::abs(y.difference());
  });
  return out;
}

}  // namespace tandem::answers

// SPDX-License-Identifier: Apache-2.0
// Any algorithm by its schedule: every step's moves laid on the routes.
#include <algorithm>
#include <cmath>

#include "sim/cost/link_pattern.h"

namespace tandem::sim {
namespace {

Pattern enumerate(const System& system, const std::vector<VertexId>& ranks, const Schedule& schedule) {
  Pattern total;
  double in_turn = 0;  // seconds per byte when the steps follow each other
  double depth = 0;
  for (const Step& step : schedule.steps) {
    Pattern one;
    double latency = 0;
    HopClass worst = HopClass::fabric;
    for (const Move& m : step.moves) {
      const VertexId from = ranks[m.from], to = ranks[m.to];
      const Route r = system.route(from, to);
      const HopClass hop = hop_class(system, from, to, r);
      one.add(from, to, r, hop, static_cast<double>(m.count) / schedule.chunks, system);
      latency = std::max(latency, r.latency.seconds());
      worst = std::max(worst, hop);
    }
    double busiest = 0;
    std::map<uint32_t, double> sum;
    for (std::size_t c = 0; c < kHopClasses; ++c) {
      for (const auto& [link, weight] : one.load[c]) {
        sum[link] += weight;
        total.load[c][link] += weight * step.repeat;
      }
      if (one.cap[c] > 0) {
        busiest = std::max(busiest, 1 / one.cap[c]);
        total.cap[c] = 1 / (step.repeat / one.cap[c] + (total.cap[c] > 0 ? 1 / total.cap[c] : 0));
      }
    }
    for (const auto& [link, weight] : sum) busiest = std::max(busiest, weight / system.usable(link));
    for (const auto& [member, end] : one.ends) {
      total.ends[member].sent += end.sent * step.repeat;
      total.ends[member].received += end.received * step.repeat;
    }
    in_turn += busiest * step.repeat;
    depth += step.repeat;
    total.steps[static_cast<std::size_t>(worst)] += step.repeat;
    total.wire[static_cast<std::size_t>(worst)] += latency * step.repeat;
  }
  std::map<uint32_t, double> sum;
  double at_once = 0;
  for (const auto& load : total.load) {
    for (const auto& [link, weight] : load)
      at_once = std::max(at_once, (sum[link] += weight) / system.usable(link));
  }
  for (const double cap : total.cap) at_once = std::max(at_once, cap > 0 ? 1 / cap : 0);
  // Pieces stream through the steps: the pipe fills once, then the busiest link works without pause.
  total.extra_time =
      schedule.pipeline > 1 ? in_turn * (depth - 1) / depth / schedule.pipeline : in_turn - at_once;
  total.extra_time = std::max(0.0, total.extra_time);
  return total;
}

/// Goes on from three sizes, each twice the one before: linear when the last doubling adds clearly more than
/// the one before it, else by as much per doubling.
double extrapolate(double a, double b, double c, double doublings) {
  const double before = b - a, last = c - b;
  if (last <= 0) return c;
  if (last > 1.5 * before) return c + last * (std::exp2(doublings) - 1);
  return c + last * doublings;
}

}  // namespace

Pattern schedule_pattern(const System& system, const Group& group, CollKind kind,
                         const CollectiveAlgorithm& algorithm) {
  const auto local = static_cast<uint32_t>(group.uniform ? group.by_node.front().size() : 1);
  // Of a large group the first ranks stand for all: nodes of all kinds, interleaved.
  std::vector<VertexId> ranks;
  const bool interleaved = group.ranks() > kScheduledRanks && group.runs.size() > 1;
  const auto take = [&](std::size_t node) {
    ranks.insert(ranks.end(), group.by_node[node].begin(), group.by_node[node].end());
  };
  for (std::size_t node = 0; node < group.nodes(); ++node) {
    if (!interleaved) take(node);
    for (std::size_t r = 0; interleaved && r < group.runs.size(); ++r) {
      if (node < group.runs[r].nodes) take(group.runs[r].first + node);
    }
  }
  const auto make = [&](std::size_t count) {
    const GroupShape shape{static_cast<uint32_t>(count), local};
    return enumerate(system, ranks, algorithm.schedule(kind, shape));
  };
  if (group.ranks() <= kScheduledRanks) return make(group.ranks());
  // Powers of two nodes keep the shape (halving-doubling has an extra phase otherwise).
  const std::size_t top = std::bit_floor(std::max<std::size_t>(kScheduledRanks / local, 4)) * local;
  const Pattern a = make(top / 4), b = make(top / 2);
  Pattern c = make(top);
  const double doublings = std::log2(static_cast<double>(group.ranks()) / static_cast<double>(top));
  const auto busiest = [](const Pattern& p) {
    double most = 0;
    for (const auto& load : p.load) {
      for (const auto& [link, weight] : load) most = std::max(most, weight);
    }
    return most;
  };
  const double growth =
      busiest(c) > 0 ? extrapolate(busiest(a), busiest(b), busiest(c), doublings) / busiest(c) : 1;
  for (std::size_t k = 0; k < kHopClasses; ++k) {
    c.steps[k] = extrapolate(a.steps[k], b.steps[k], c.steps[k], doublings);
    c.wire[k] = extrapolate(a.wire[k], b.wire[k], c.wire[k], doublings);
    c.cap[k] /= growth;
    for (auto& [link, weight] : c.load[k]) weight *= growth;
  }
  for (auto& [member, end] : c.ends) end = {end.sent * growth, end.received * growth};
  c.extra_time = extrapolate(a.extra_time, b.extra_time, c.extra_time, doublings);
  return c;
}

}  // namespace tandem::sim

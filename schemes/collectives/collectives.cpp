// SPDX-License-Identifier: Apache-2.0
#include "schemes/collectives/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace tandem::schemes {

double sent_share(const Schedule& schedule) {
  std::vector<double> sent(schedule.ranks, 0);
  for (const Step& step : schedule.steps) {
    for (const Move& m : step.moves) sent[m.from] += static_cast<double>(m.count) * step.repeat;
  }
  return *std::max_element(sent.begin(), sent.end()) / schedule.chunks;
}

bool overlap(const Move& a, const Move& b) {
  return a.offset < b.offset + b.count && b.offset < a.offset + a.count;
}

bool last_hands_out(const Schedule& schedule) {
  const std::size_t n = schedule.steps.size();
  if (n < 2 || schedule.steps[n - 1].repeat != 1) return false;
  const std::vector<Move>& made = schedule.steps[n - 2].moves;
  for (const Move& out : schedule.steps[n - 1].moves) {
    bool sum = false;
    for (const Move& m : made) {
      if (m.to == out.from) {
        if (!m.reduce || m.offset != out.offset || m.count != out.count) return false;
        sum = true;
      }
      if (overlap(m, out) && (m.to == out.to || (m.from == out.to && m.to != out.from))) return false;
    }
    if (out.reduce || !sum) return false;
  }
  return true;
}

double memory_passes(const Schedule& schedule, const Step& step, bool handed_out) {
  std::vector<double> moved(schedule.ranks, 0);
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> written;
  for (const Move& m : step.moves) {
    const double count = m.count;
    if (handed_out) {
      moved[m.from] += count;
      continue;
    }
    moved[m.to] += count;
    if (written.emplace(m.to, m.offset, m.count).second) moved[m.to] += 2 * count;
  }
  return *std::max_element(moved.begin(), moved.end()) * step.repeat / schedule.chunks;
}

double memory_passes(const Schedule& schedule) {
  const bool hands_out = last_hands_out(schedule);
  double sum = 0;
  for (const Step& step : schedule.steps)
    sum += memory_passes(schedule, step, hands_out && &step == &schedule.steps.back());
  return sum;
}

const CollectiveAlgorithm& executed_algorithm(CollKind kind, const std::string& algorithm,
                                              const GroupShape& group, bool between_nodes) {
  if (algorithm != "auto") {
    const CollectiveAlgorithm& a = collectives_registry().at(algorithm);
    if (a.supports(kind, group)) return a;
    throw InputError(fmt::format("{} cannot {} among {} members, {} on a node", algorithm, name(kind),
                                 group.ranks, group.local));
  }
  std::vector<const char*> candidates = {"direct", "tree", "ring", "central"};
  if (between_nodes) {
    candidates = {"ring", "tree", "central", "direct"};
    if (group.local > 1) candidates.insert(candidates.begin(), "hierarchical");
  }
  for (const char* candidate : candidates) {
    const CollectiveAlgorithm* a = collectives_registry().find(candidate);
    if (a != nullptr && a->supports(kind, group)) return *a;
  }
  throw InputError(fmt::format("no algorithm can {} among {} members", name(kind), group.ranks));
}

}  // namespace tandem::schemes

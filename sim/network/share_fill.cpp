// SPDX-License-Identifier: Apache-2.0
// Max-min fair rates from nothing: what FairShare falls back on.
#include <algorithm>

#include "sim/network/share.h"

namespace tandem::sim {

/// Progressive filling over all flows and links. Each round fixes the flows of the link, or the flow, whose
/// limit comes first, at least one, so that there are as many rounds as flows at most whatever the rounding.
std::vector<uint32_t> FairShare::filled(std::vector<double>& levels) const {
  struct Room {
    double left = 0, weight = 0;
    std::size_t flows = 0;  // that are not fixed yet
  };
  std::vector<Room> room(idle_);
  for (uint32_t l = 0; l < idle_; ++l) {
    room[l] = {facts_[l].capacity, 0, members_[l].size()};
    for (const Member& m : members_[l]) room[l].weight += static_cast<double>(m.weight);
  }
  std::vector<uint32_t> out(flows_.size(), idle_);
  std::vector<FlowId> by_cap;
  for (FlowId id = 0; id < flows_.size(); ++id) {
    if (bottleneck_[id] != idle_) by_cap.push_back(id);
  }
  std::stable_sort(by_cap.begin(), by_cap.end(),
                   [&](FlowId a, FlowId b) { return level_[own_cap(a)] < level_[own_cap(b)]; });
  const auto fix = [&](FlowId id, uint32_t bottleneck, double level) {
    out[id] = bottleneck;
    const Flow& flow = flows_[id];
    for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
      Room& of = room[pool_[s].link];
      of.left -= static_cast<double>(pool_[s].weight) * level;
      of.weight = --of.flows == 0 ? 0 : of.weight - static_cast<double>(pool_[s].weight);
    }
  };
  levels.assign(idle_, kInfinite);
  double level = 0;
  for (std::size_t next = 0; next < by_cap.size();) {
    const FlowId capped = by_cap[next];
    if (out[capped] != idle_) {
      ++next;
      continue;
    }
    double least = level_[own_cap(capped)];
    uint32_t first = idle_;
    for (uint32_t l = 0; l < idle_; ++l) {
      const Room& of = room[l];
      const double share = of.flows == 0 ? kInfinite : std::max(level, of.left / of.weight);
      if (share < least) least = share, first = l;
    }
    if (first == idle_) {
      fix(capped, own_cap(capped), least);
      continue;
    }
    level = levels[first] = least;
    for (const Member& m : members_[first]) {
      if (out[m.flow] == idle_) fix(m.flow, first, level);
    }
  }
  return out;
}

void FairShare::fill() {
  std::vector<double> levels;
  const std::vector<uint32_t> bottlenecks = filled(levels);
  for (uint32_t l = 0; l < idle_; ++l) {
    if (levels[l] < kInfinite && !facts_[l].hot) promote(l);
  }
  while (order_.pop() != nullptr) continue;
  for (const uint32_t l : touched_) is_touched_[l] = 0;
  touched_.clear();
  overfull_.clear();
  for (const uint32_t l : hot_) {
    own_[l].clear();
    beside_[l].clear();
    facts_[l].cap = facts_[l].watch = kInfinite;
    facts_[l].overfull = false;
    if (levels[l] != level_[l]) note_level(l, levels[l]);
    if (levels[l] < kInfinite) order_.move(l, levels[l]);
  }
  for (FlowId id = 0; id < flows_.size(); ++id) {
    const uint32_t to = bottlenecks[id];
    if (to == idle_) continue;  // no flow, for now
    if (to != bottleneck_[id] && is_moved_[id] == 0) {
      is_moved_[id] = 1;
      moved_.push_back(id);
    }
    bottleneck_[id] = to;
    if (to > idle_) continue;
    own_at_[id] = static_cast<uint32_t>(own_[to].size());
    own_[to].push_back(id);
    facts_[to].cap = std::min(facts_[to].cap, level_[own_cap(id)]);
    facts_[to].watch = std::min(facts_[to].watch, watch_[id]);
    const Flow& flow = flows_[id];
    for (uint32_t s = flow.first; s < flow.first + flow.hot; ++s) {
      if (pool_[s].link != to) add_beside(to, pool_[s]);
    }
  }
  for (const uint32_t l : hot_) sum(l);
  floor_ = 0;
}

}  // namespace tandem::sim

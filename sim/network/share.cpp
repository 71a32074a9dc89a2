// SPDX-License-Identifier: Apache-2.0
#include "sim/network/share.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tandem::sim {

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr uint32_t kCap = 1U << 31;
// A link used beyond this share is taken for full: it may soon be, and solving again costs more.
constexpr double kNearlyFull = 0.98;
constexpr double kFits = 1 + 1e-11;
constexpr double kNew = 0;
constexpr double kOpen = -1;  // rate of a flow that is not yet fixed
}  // namespace

FairShare::FairShare(std::vector<double> capacity)
    : capacity_(std::move(capacity)),
      members_(capacity_.size()),
      member_shares_(capacity_.size()),
      filling_(capacity_.size()),
      usage_(capacity_.size()),
      full_(capacity_.size()),
      removed_level_(kInfinite) {
  for (const double c : capacity_) {
    if (!(c >= 0) || std::isinf(c))
      throw InputError("a link's capacity must be a finite number of bytes/s >= 0");
  }
}

void FairShare::reserve_shares(FlowId id, std::size_t count) {
  if (room_[id] < count) {
    room_[id] = static_cast<uint32_t>(std::bit_ceil(count));
    flows_[id].first = static_cast<uint32_t>(pool_.size());
    pool_.resize(pool_.size() + room_[id]);
    position_.resize(pool_.size());
  }
  flows_[id].count = 0;
}

FairShare::FlowId FairShare::add(std::span<const Use> uses, double cap) {
  for (const Use& use : uses) {
    if (!(use.weight >= 0) || std::isinf(use.weight))
      throw InputError("a flow's weight must be finite and >= 0");
    TANDEM_CHECK(use.link < capacity_.size());
  }
  if (free_.empty()) {
    free_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
    rate_.push_back(0);
    before_.push_back(0);
    cap_.push_back(0);
    room_.push_back(0);
  }
  const FlowId id = free_.back();
  free_.pop_back();
  reserve_shares(id, uses.size());
  Flow& flow = flows_[id];
  cap_[id] = cap > 0 ? cap : kInfinite;
  rate_[id] = kNew;
  bool ordered = true;  // by link, each once: as bindings list them, and then no search is needed
  for (const Use& use : uses) {
    if (use.weight == 0) continue;
    Share* const shares = &pool_[flow.first];
    Share* const end = shares + flow.count;
    ordered = ordered && (flow.count == 0 || end[-1].link < use.link);
    Share* const same =
        ordered ? end : std::find_if(shares, end, [&](const Share& s) { return s.link == use.link; });
    const uint32_t index = flow.first + static_cast<uint32_t>(same - shares);
    auto& members = members_[use.link];
    if (same != end) {
      same->weight += use.weight;
      members[position_[index]].weight = same->weight;
      continue;
    }
    *end = {use.link, use.weight};
    position_[index] = static_cast<uint32_t>(members.size());
    members.push_back({id, use.weight});
    member_shares_[use.link].push_back(index);
    ++flow.count;
    dirty_.push_back(use.link);
  }
  added_.push_back(id);
  ++active_;
  return id;
}

void FairShare::remove(FlowId id) {
  // A flow added and removed between two updates has changed nothing.
  const auto fresh = std::find(added_.begin(), added_.end(), id);
  if (fresh != added_.end()) {
    added_.erase(fresh);
  } else {
    removed_level_ = std::min(removed_level_, rate_[id]);
  }
  const Flow& flow = flows_[id];
  for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
    const uint32_t link = pool_[s].link;
    auto& members = members_[link];
    auto& shares = member_shares_[link];
    const uint32_t at = position_[s];
    members[at] = members.back();
    shares[at] = shares.back();
    position_[shares[at]] = at;
    members.pop_back();
    shares.pop_back();
    usage_[link] = members.empty() ? 0 : usage_[link] - static_cast<double>(pool_[s].weight) * rate_[id];
    if (full_[link] != 0) dirty_.push_back(link);
  }
  free_.push_back(id);
  --active_;
}

/// Rates below this stay as they are. A new flow's rate is at least its smallest equal share of a link, with
/// all flows of that link counted, or its cap.
double FairShare::threshold() {
  double least = removed_level_;
  ++round_;
  for (const FlowId id : added_) {
    const Flow& flow = flows_[id];
    least = std::min(least, cap_[id]);
    for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
      const uint32_t l = pool_[s].link;
      Filling& link = filling_[l];
      if (link.seen != round_) {
        link.seen = round_;
        link.load = 0;
        for (const Member& m : members_[l]) link.load += static_cast<double>(m.weight);
      }
      least = std::min(least, capacity_[l] / link.load);
    }
  }
  // Sums of capacity taken in another order may differ in the last digits.
  return least * (1 - 1e-9);
}

void FairShare::touch(uint32_t link) {
  if (filling_[link].seen == round_) return;
  filling_[link] = {capacity_[link], 0, 0, round_};
  area_.push_back(link);
}

void FairShare::reach(FlowId id) {
  before_[id] = rate_[id];
  rate_[id] = kOpen;
  reached_.push_back(id);
  const Flow flow = flows_[id];
  for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
    if (full_[pool_[s].link] != 0) touch(pool_[s].link);
  }
}

/// Collects the links and flows that the change can reach and what is left for them.
void FairShare::gather(double threshold) {
  ++round_;
  area_.clear();
  reached_.clear();
  overfull_.clear();
  for (const FlowId id : added_) reach(id);
  for (const uint32_t link : dirty_) touch(link);
  for (std::size_t i = 0; i < area_.size(); ++i) {
    Filling& link = filling_[area_[i]];
    double left = link.left, load = 0;
    uint32_t open = 0;
    for (const Member& m : members_[area_[i]]) {
      const double rate = rate_[m.flow];
      if (rate >= 0 && rate < threshold) {
        left -= static_cast<double>(m.weight) * rate;
        continue;
      }
      load += static_cast<double>(m.weight);
      ++open;
      if (rate != kOpen) reach(m.flow);
    }
    link.left = left;
    link.load = load;
    link.open = open;
  }
  open_ = reached_.size();
}

/// Fixes a flow's rate and books it on its links.
void FairShare::fix(FlowId id, double rate) {
  rate_[id] = rate;
  --open_;
  const double change = rate - before_[id];
  const Flow flow = flows_[id];
  for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
    const uint32_t l = pool_[s].link;
    const auto weight = static_cast<double>(pool_[s].weight);
    Filling& link = filling_[l];
    if (link.seen == round_) {
      link.left -= weight * rate;
      link.load -= weight;
      --link.open;
    } else if (change != 0) {
      usage_[l] += weight * change;
      if (usage_[l] > capacity_[l] * kFits) overfull_.push_back(l);
    }
  }
}

void FairShare::saturate(uint32_t link, double level) {
  full_[link] = 1;
  for (const Member& m : members_[link]) {
    if (rate_[m.flow] == kOpen) fix(m.flow, level);
  }
}

/// Progressive filling. A link's level only rises as flows are fixed below it, so a heap entry that is out
/// of date is too low and sinks.
void FairShare::fill() {
  heap_.clear();
  for (const uint32_t l : area_) {
    if (filling_[l].open == 0) continue;
    full_[l] = 0;
    heap_.push_back({filling_[l].level(), l});
  }
  for (const FlowId id : reached_) {
    if (cap_[id] < kInfinite) heap_.push_back({cap_[id], kCap + id});
    if (cap_[id] == kInfinite && flows_[id].count == 0) fix(id, kInfinite);
  }
  for (std::size_t i = heap_.size() / 2; i-- > 0;) sink(i);
  while (open_ > 0) {
    const Level top = heap_.front();
    const bool link = top.index < kCap;
    const bool done = link ? filling_[top.index].open == 0 : rate_[top.index - kCap] != kOpen;
    const double now = link && !done ? filling_[top.index].level() : top.level;
    heap_.front().level = now;
    if (done || !(now > top.level)) {
      heap_.front() = heap_.back();
      heap_.pop_back();
    }
    if (!heap_.empty()) sink(0);
    if (done || now > top.level) continue;
    if (link) {
      saturate(top.index, now);
    } else {
      fix(top.index - kCap, now);
    }
  }
}

/// Moves heap_[at] down to its place in a binary heap with the least level on top.
void FairShare::sink(std::size_t at) {
  const Level moved = heap_[at];
  for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size()) child += heap_[child + 1].level < heap_[child].level ? 1 : 0;
    if (!(heap_[child].level < moved.level)) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = moved;
}

/// Closes the books of the area. False when a link outside it is overfull; such links are then marked as
/// full.
bool FairShare::book() {
  for (const uint32_t l : area_) {
    usage_[l] = capacity_[l] - filling_[l].left;
    if (usage_[l] > kNearlyFull * capacity_[l]) full_[l] = 1;
  }
  // A rate fixed later may have made room again.
  bool fits = true;
  for (const uint32_t l : overfull_) {
    if (full_[l] != 0 || usage_[l] <= capacity_[l] * kFits) continue;
    full_[l] = 1;
    dirty_.push_back(l);
    fits = false;
  }
  return fits;
}

/// Back to the rates before fill(), with all that was reached to be reached again.
void FairShare::undo() {
  for (const uint32_t l : area_) full_[l] = 1;
  for (const FlowId id : reached_) {
    const Flow flow = flows_[id];
    for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
      if (filling_[pool_[s].link].seen == round_) continue;
      usage_[pool_[s].link] -= static_cast<double>(pool_[s].weight) * (rate_[id] - before_[id]);
    }
    rate_[id] = before_[id];
  }
}

const std::vector<FairShare::FlowId>& FairShare::update() {
  changed_.clear();
  if (added_.empty() && dirty_.empty()) return changed_;
  const double from = threshold();
  for (;;) {
    gather(from);
    fill();
    if (book()) break;
    undo();
  }
  for (const FlowId id : added_) before_[id] = kOpen;  // whatever its rate, it is new
  for (const FlowId id : reached_) {
    if (rate_[id] != before_[id]) changed_.push_back(id);
  }
  added_.clear();
  dirty_.clear();
  removed_level_ = kInfinite;
  return changed_;
}

}  // namespace tandem::sim

#include "sim/network/share.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tandem {

namespace {
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr uint32_t kCap = 1U << 31;
}  // namespace

FairShare::FairShare(std::vector<double> capacity)
    : capacity_(std::move(capacity)), links_(capacity_.size()), removed_level_(kInfinite) {
  for (const double c : capacity_) {
    if (!(c >= 0) || std::isinf(c))
      throw InputError("a link's capacity must be a finite number of bytes/s >= 0");
  }
}

void FairShare::reserve_shares(Flow& flow, std::size_t count) {
  if (flow.room < count) {
    flow.room = static_cast<uint32_t>(std::bit_ceil(count));
    flow.first = static_cast<uint32_t>(pool_.size());
    pool_.resize(pool_.size() + flow.room);
  }
  flow.count = 0;
}

FairShare::FlowId FairShare::add(std::span<const Use> uses, double cap) {
  if (free_.empty()) {
    free_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
  }
  const FlowId id = free_.back();
  free_.pop_back();
  Flow& flow = flows_[id];
  reserve_shares(flow, uses.size());
  flow.cap = cap > 0 ? cap : kInfinite;
  flow.rate = 0;
  flow.live = true;
  for (const Use& use : uses) {
    if (!(use.weight >= 0) || std::isinf(use.weight))
      throw InputError("a flow's weight must be finite and >= 0");
    if (use.weight == 0) continue;
    Share* const shares = &pool_[flow.first];
    Share* const end = shares + flow.count;
    Share* const same = std::find_if(shares, end, [&](const Share& s) { return s.link == use.link; });
    if (same != end) {
      same->weight += static_cast<double>(use.weight);
      links_[use.link].members[same->position].weight = same->weight;
      continue;
    }
    auto& members = links_.at(use.link).members;
    *end = {use.link, static_cast<uint32_t>(members.size()), static_cast<double>(use.weight)};
    members.push_back({id, flow.first + flow.count, end->weight});
    ++flow.count;
    dirty_.push_back(use.link);
  }
  added_.push_back(id);
  ++active_;
  return id;
}

void FairShare::remove(FlowId id) {
  Flow& flow = flows_[id];
  TANDEM_CHECK(flow.live);
  // A flow added and removed between two updates has changed nothing.
  const auto fresh = std::find(added_.begin(), added_.end(), id);
  if (fresh != added_.end()) {
    added_.erase(fresh);
  } else {
    removed_level_ = std::min(removed_level_, flow.rate);
  }
  for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
    auto& members = links_[pool_[s].link].members;
    const uint32_t at = pool_[s].position;
    members[at] = members.back();
    pool_[members[at].share].position = at;
    members.pop_back();
    dirty_.push_back(pool_[s].link);
  }
  flow.live = false;
  free_.push_back(id);
  --active_;
}

/// Rates below this stay as they are. A new flow's rate is at least its smallest equal share of a link, with
/// all flows of that link counted, or its cap.
double FairShare::threshold() {
  double least = removed_level_;
  for (const FlowId id : added_) {
    const Flow& flow = flows_[id];
    least = std::min(least, flow.cap);
    for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
      Link& link = links_[pool_[s].link];
      if (link.seen != round_) {
        link.seen = round_;
        link.load = 0;
        for (const Member& m : link.members) link.load += m.weight;
      }
      least = std::min(least, capacity_[pool_[s].link] / link.load);
    }
  }
  // Sums of capacity taken in another order may differ in the last digits.
  return least * (1 - 1e-9);
}

void FairShare::touch(uint32_t link) {
  if (links_[link].seen == round_) return;
  links_[link].seen = round_;
  area_.push_back(link);
}

/// Collects the links and flows that the change can reach and what is left for them.
void FairShare::gather(double threshold) {
  area_.clear();
  reached_.clear();
  before_.clear();
  const auto reach = [&](FlowId id) {
    Flow& flow = flows_[id];
    flow.seen = round_;
    flow.fixed = false;
    reached_.push_back(id);
    before_.push_back(flow.rate);
    for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) touch(pool_[s].link);
  };
  for (const FlowId id : added_) {
    flows_[id].rate = kInfinite;  // not below any threshold
    reach(id);
    before_.back() = -1;  // whatever the rate, it is new
  }
  for (const uint32_t link : dirty_) touch(link);
  for (std::size_t i = 0; i < area_.size(); ++i) {
    Link& link = links_[area_[i]];
    link.left = capacity_[area_[i]];
    link.load = 0;
    link.open = 0;
    for (const Member& m : link.members) {
      const Flow& flow = flows_[m.flow];
      if (flow.rate < threshold) {
        link.left -= m.weight * flow.rate;
        continue;
      }
      link.load += m.weight;
      ++link.open;
      if (flow.seen != round_) reach(m.flow);
    }
  }
}

double FairShare::level(const Link& link) const { return std::max(link.left, 0.0) / link.load; }

void FairShare::fix(FlowId id, double rate) {
  Flow& flow = flows_[id];
  flow.rate = rate;
  flow.fixed = true;
  for (uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
    Link& link = links_[pool_[s].link];
    link.left -= pool_[s].weight * rate;
    link.load -= pool_[s].weight;
    --link.open;
  }
}

/// Progressive filling. A link's level only rises as flows are fixed below it, so a heap entry that is out
/// of date is too low and goes back in.
void FairShare::fill() {
  heap_.clear();
  for (const uint32_t l : area_) {
    if (links_[l].open > 0) heap_.push_back({level(links_[l]), l});
  }
  for (const FlowId id : reached_) {
    if (flows_[id].cap < kInfinite) heap_.push_back({flows_[id].cap, kCap + id});
    if (flows_[id].cap == kInfinite && flows_[id].count == 0) fix(id, kInfinite);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const Level top = heap_.back();
    heap_.pop_back();
    if (top.index >= kCap) {
      if (!flows_[top.index - kCap].fixed) fix(top.index - kCap, top.level);
      continue;
    }
    Link& link = links_[top.index];
    if (link.open == 0) continue;
    const double now = level(link);
    if (now > top.level && !heap_.empty() && now > heap_.front().level) {
      heap_.push_back({now, top.index});
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      continue;
    }
    for (const Member& m : link.members) {
      if (flows_[m.flow].seen == round_ && !flows_[m.flow].fixed) fix(m.flow, now);
    }
  }
}

const std::vector<FairShare::FlowId>& FairShare::update() {
  changed_.clear();
  if (added_.empty() && dirty_.empty()) return changed_;
  ++round_;
  const double from = threshold();
  ++round_;
  gather(from);
  fill();
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    if (flows_[reached_[i]].rate != before_[i]) changed_.push_back(reached_[i]);
  }
  added_.clear();
  dirty_.clear();
  removed_level_ = kInfinite;
  return changed_;
}

}  // namespace tandem

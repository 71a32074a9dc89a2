// SPDX-License-Identifier: Apache-2.0
#include "sim/network/flows.h"

#include <algorithm>

namespace tandem::sim {

namespace {
// A count beyond this many times what a new flow has to move is reset: next to it the flow's end would lose
// digits.
constexpr double kMostServed = 8;
}  // namespace

void Flows::start(int64_t, std::span<const Use> uses, double cap, double bytes, uint64_t tag) {
  const uint32_t id = share_.add(uses, cap);
  if (id >= flows_.size()) {
    flows_.resize(id + 1);
    at_.resize(id + 1);
    bottlenecks_.resize(share_.bottlenecks());
    next_.grow(share_.bottlenecks());
  }
  flows_[id] = {bytes, tag, kNone};
  pending_ = true;
}

void Flows::erase(Bottleneck& b, uint32_t flow) {
  b.due.erase(at_[flow], at_);
  if (b.due.empty()) b.served = 0;
}

void Flows::advance(Bottleneck& b, int64_t now) {
  if (b.since == now) return;
  if (!b.due.empty() && b.rate > 0) b.served += b.rate * (static_cast<double>(now - b.since) * 1e-12);
  b.since = now;
}

int64_t Flows::end_of(const Bottleneck& b) const {
  if (b.due.empty() || !(b.rate > 0)) return kNever;
  return std::min(kNever, b.since + picoseconds(std::max(0.0, b.due.top().key - b.served) / b.rate));
}

void Flows::note(uint32_t bottleneck) {
  Bottleneck& b = bottlenecks_[bottleneck];
  if (b.stale) return;
  b.stale = true;
  stale_.push_back(bottleneck);
}

void Flows::finish(int64_t now, std::vector<uint64_t>& tags) {
  const std::size_t before = tags.size();
  while (next_.least() <= now) {
    const std::size_t at = next_.first();
    Bottleneck& b = bottlenecks_[at];
    do {
      const uint32_t id = b.due.top().item;
      tags.push_back(flows_[id].tag);
      flows_[id].bottleneck = kNone;
      erase(b, id);
      share_.remove(id);
    } while (end_of(b) <= now);
    next_.set(at, end_of(b));
    pending_ = true;
  }
  std::sort(tags.begin() + static_cast<std::ptrdiff_t>(before), tags.end());
}

void Flows::update(int64_t now) {
  pending_ = false;
  share_.update();
  for (const uint32_t l : share_.changed()) {
    advance(bottlenecks_[l], now);
    bottlenecks_[l].rate = share_.level(l);
    note(l);
  }
  for (const uint32_t id : share_.moved()) {
    Flow& flow = flows_[id];
    const uint32_t from = flow.bottleneck, to = share_.bottleneck(id);
    if (from == to) continue;
    double left = flow.bytes;
    if (from != kNone) {
      Bottleneck& b = bottlenecks_[from];
      advance(b, now);
      left = std::max(0.0, b.due.key(at_[id]) - b.served);
      erase(b, id);
      note(from);
    }
    flow.bottleneck = to;
    Bottleneck& b = bottlenecks_[to];
    advance(b, now);
    b.rate = share_.level(to);
    if (b.served > kMostServed * left) {
      b.due.shift(b.served);
      b.served = 0;
    }
    b.due.push({b.served + left, id}, at_);
    note(to);
  }
  for (const uint32_t at : stale_) {
    bottlenecks_[at].stale = false;
    next_.set(at, end_of(bottlenecks_[at]));
  }
  stale_.clear();
}

}  // namespace tandem::sim

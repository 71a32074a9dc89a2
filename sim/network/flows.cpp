// SPDX-License-Identifier: Apache-2.0
#include "sim/network/flows.h"

#include <algorithm>

namespace tandem::sim {

void Flows::start(int64_t now, std::span<const Use> uses, double cap, double bytes, uint64_t tag) {
  const uint32_t id = share_.add(uses, cap);
  if (id >= flows_.size()) {
    flows_.resize(id + 1);
    const std::size_t blocks = id / kBlock + 1;
    finish_.resize(blocks * kBlock, kNever);
    least_.resize(blocks, kNever);
    is_stale_.resize(blocks, 0);
  }
  flows_[id] = {bytes, 0, now, tag};
  pending_ = true;
}

void Flows::set_finish(uint32_t id, int64_t at) {
  finish_[id] = at;
  const uint32_t block = id / kBlock;
  if (is_stale_[block] == 0) {
    is_stale_[block] = 1;
    stale_.push_back(block);
  }
}

void Flows::resolve_blocks() {
  for (const uint32_t b : stale_) {
    is_stale_[b] = 0;
    const auto first = finish_.begin() + static_cast<std::ptrdiff_t>(b * kBlock);
    int64_t least = kNever;
    for (std::size_t i = 0; i < kBlock; ++i) least = std::min(least, first[static_cast<std::ptrdiff_t>(i)]);
    least_[b] = least;
  }
  stale_.clear();
  next_ = kNever;
  for (const int64_t at : least_) next_ = std::min(next_, at);
}

void Flows::finish(int64_t now, std::vector<uint64_t>& tags) {
  const std::size_t before = tags.size();
  for (std::size_t b = 0; b < least_.size(); ++b) {
    if (least_[b] > now) continue;
    for (std::size_t i = b * kBlock; i < (b + 1) * kBlock; ++i) {
      if (finish_[i] > now) continue;
      const auto id = static_cast<uint32_t>(i);
      tags.push_back(flows_[id].tag);
      share_.remove(id);
      set_finish(id, kNever);
      pending_ = true;
    }
  }
  std::sort(tags.begin() + static_cast<std::ptrdiff_t>(before), tags.end());
}

void Flows::update(int64_t now) {
  pending_ = false;
  for (const uint32_t id : share_.update()) {
    Flow& flow = flows_[id];
    if (flow.rate > 0) {
      const double gone = flow.rate * (static_cast<double>(now - flow.since) * 1e-12);
      flow.left = std::max(0.0, flow.left - gone);
    }
    flow.since = now;
    flow.rate = share_.rate(id);
    set_finish(id, flow.rate > 0 ? std::min(kNever, now + picoseconds(flow.left / flow.rate)) : kNever);
  }
  resolve_blocks();
}

}  // namespace tandem::sim

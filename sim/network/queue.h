// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pending events in order of time.
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tandem::sim {

/// Radix heap on integer picoseconds: a monotone queue (nothing is pushed before the last time popped),
/// amortised O(log range) moves an event, no comparisons between events. Items of equal time come out in
/// the order pushed. Ahuja, Mehlhorn, Orlin, Tarjan 1990, "Faster algorithms for the shortest path problem".
/// For one thread at a time.
class MonotoneQueue {
 public:
  struct Item {
    int64_t time = 0;
    uint64_t data = 0;
  };
  /// Requires time >= the time of the last batch popped.
  void push(int64_t time, uint64_t data) {
    TANDEM_CHECK(time >= last_);
    const int b = bucket(time);
    buckets_[b].push_back({time, data});
    filled_ |= uint64_t{1} << b;
  }
  bool empty() const { return filled_ == 0; }
  /// Whether more is pending for the time of the last batch popped.
  bool more_now() const { return (filled_ & 1) != 0; }
  /// Moves all items of the least time into `out` (emptied first). Requires !empty().
  void pop_batch(std::vector<Item>& out) {
    out.clear();
    if ((filled_ & 1) == 0) refill();
    std::swap(out, buckets_[0]);
    filled_ &= ~uint64_t{1};
  }

 private:
  // Times are >= 0, so at most 63 bits differ and 64 buckets do.
  int bucket(int64_t time) const {
    return 64 - std::countl_zero(static_cast<uint64_t>(time) ^ static_cast<uint64_t>(last_));
  }
  void refill() {
    const int b = std::countr_zero(filled_);
    std::vector<Item>& from = buckets_[b];
    int64_t least = from.front().time, most = least;
    for (const Item& item : from) {
      least = item.time < least ? item.time : least;
      most = item.time > most ? item.time : most;
    }
    last_ = least;
    filled_ &= ~(uint64_t{1} << b);
    if (least == most) {
      std::swap(from, buckets_[0]);
    } else {
      for (const Item& item : from) {
        const int to = bucket(item.time);
        buckets_[to].push_back(item);
        filled_ |= uint64_t{1} << to;
      }
      from.clear();
    }
    filled_ |= 1;
  }

  std::vector<Item> buckets_[64];
  uint64_t filled_ = 0;
  int64_t last_ = 0;
};

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Links that serve transfers one after another, in the order they set out: what fair sharing comes to where
// thousands of like messages are in flight, at O(links used) a transfer.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan.h"

namespace tandem::sim {

/// Every link has a queue of its own with room for all that waits, so that a link with work never idles and
/// its total rate is its capacity. A transfer queues at all its links at once, so none waits for another: all
/// together end when they would under fair sharing, single ones earlier.
class LinkQueues {
 public:
  explicit LinkQueues(const std::vector<double>& capacity) : free_(capacity.size(), 0) {
    for (const double c : capacity) seconds_per_byte_.push_back(1 / c);
  }
  /// When a payload of `bytes` that sets out at `now` has passed all its links, at most at `cap` bytes/s (0 =
  /// none). Requires that `now` never decreases.
  int64_t pass(int64_t now, std::span<const Use> uses, double cap, double bytes) {
    int64_t end = cap > 0 ? now + picoseconds(bytes / cap) : now;
    for (const Use& use : uses) {
      const int64_t service =
          picoseconds(bytes * static_cast<double>(use.weight) * seconds_per_byte_[use.link]);
      int64_t& free = free_[use.link];
      free = std::min(kNever, std::max(now, free) + service);
      end = std::max(end, free);
    }
    return std::min(end, kNever);
  }

 private:
  std::vector<double> seconds_per_byte_;
  std::vector<int64_t> free_;  ///< when the link has served all that set out so far
};

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Links that serve transfers one after another, in the order they set out: what fair sharing comes to where
// thousands of like messages are in flight, at O(links used) a transfer.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "schemes/program/program.h"
#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// Every link has its own queue with room for all that waits, so that a link with work never idles and
/// its total rate is its capacity. A transfer queues at all its links at once, so none waits for another: all
/// together end when they would under fair sharing, single ones earlier.
/// For one thread at a time.
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

/// Above this many pairs of a sender and a shard, the event engine lets links serve transfers one after
/// another (LinkQueues) instead of sharing them fairly, which costs time per transfer in flight. Measured
/// against fair sharing over 48 to 256 workers: rates 0 to 8 % apart, but half as high again where the
/// workers' own links are the bottleneck, since queues keep links busier; mean staleness within 4 %.
inline constexpr int64_t kSharingPairs = 4096;
/// The same where most workers wait for each other: their messages come at once, and sharing them takes
/// longest. Rates over 16 to 64 workers with a shard per node: 2 % low to 3 % high, 4 to 17 % high where
/// tensors of 400 MB fill the network; two thirds high with two shards for 32 workers, whose first answers
/// then come while the last are still on their way.
inline constexpr int64_t kLockStepPairs = 2048;
/// The limit of the two that holds for the program.
int64_t sharing_pairs(const Program& program);
bool serves_in_turn(const Program& program);

}  // namespace tandem::sim

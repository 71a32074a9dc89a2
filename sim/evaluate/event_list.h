// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clock of the event evaluator and what is to come.
//
// Events happen in the order (time, round, lane, order of scheduling): a round is all that is pending for a
// time; what its events schedule for the very same time makes the next round; a lane's number grows with
// role, instance and lane. This is the canonical order in which ties of arrival are broken.
#include <cstdint>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/network/queue.h"

namespace tandem::sim {

/// What an event tells: the number of its lane, global instance * kLanes + lane, in the upper half; in the
/// lower 0, the end of the lane's op, or one more than the number of a message. In a lane's place may stand:
namespace event {
inline constexpr uint32_t kCore = UINT32_MAX - 1;  ///< the lower half is a processor
inline constexpr uint32_t kHeld = UINT32_MAX - 2;  ///< the lower half is a lane whose send waits for one
inline constexpr uint64_t kFlows = UINT64_MAX;     ///< the whole: payloads may have left
inline uint64_t of(uint32_t lane, uint32_t slot = 0) { return uint64_t{lane} << 32 | slot; }
inline uint32_t lane(uint64_t data) { return static_cast<uint32_t>(data >> 32); }
inline uint32_t slot(uint64_t data) { return static_cast<uint32_t>(data); }
}  // namespace event

/// For one thread at a time. Times are picoseconds.
class EventList {
 public:
  int64_t now() const { return now_; }
  bool empty() const { return queue_.empty(); }
  /// Throws InputError where that is never.
  void schedule(int64_t after, uint64_t data) {
    if (after >= kNever - now_) too_late();
    queue_.push(now_ + after, data);
  }
  /// Requires time >= now().
  void schedule_at(int64_t time, uint64_t data) { queue_.push(time, data); }
  /// The next round, whose time is now. Valid until the next call. Requires !empty().
  const std::vector<MonotoneQueue::Item>& next_round() {
    queue_.pop_batch(round_);
    now_ = round_.front().time;
    if (round_.size() > 1) sort_round();
    return round_;
  }
  /// Whether another round of now follows.
  bool more_now() const { return queue_.more_now(); }

 private:
  [[noreturn]] static void too_late();
  void sort_round();

  int64_t now_ = 0;
  MonotoneQueue queue_;
  std::vector<MonotoneQueue::Item> round_;
};

}  // namespace tandem::sim

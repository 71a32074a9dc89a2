// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers that share processors in time slices, in the event evaluator.
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/evaluate/core_turns.h"
#include "sim/evaluate/event_list.h"

namespace tandem::sim {

/// Of a plan whose workers have processors of their own nothing but shared(). For one thread at a time.
class SharedProcessors {
 public:
  /// Both outlive it.
  SharedProcessors(const BoundProgram& plan, uint32_t workers, EventList& events);

  bool shared() const { return turns_.has_value(); }
  /// Where each worker is one thread, which also does what servers do for it.
  bool one_thread() const { return shared() && shares_.one_thread; }
  /// The lane's op, or a server's, ends when the worker has done so much.
  void work(uint32_t worker, uint32_t lane_id, int64_t work);
  /// The worker waits for others.
  void leave(uint32_t worker);
  /// At event::kCore: the worker whose work is done, or CoreTurns::kNobody. It leaves unless it goes on.
  uint32_t look(uint32_t core);
  /// The lane whose op has its work on the worker's processor.
  uint32_t lane_of(uint32_t worker) const { return computing_[worker]; }

  /// A send during a computation on the same processor waits until that one's time slice is over, or it waits
  /// itself: event::kHeld comes then.
  void hold(uint32_t worker, uint32_t lane_id);
  bool holds(uint32_t lane_id) const { return held_until_[lane_id] != kNever; }
  /// At event::kHeld: whether it is not earlier than that.
  bool due(uint32_t lane_id) const { return held_until_[lane_id] == events_.now(); }
  void release(uint32_t lane_id) { held_until_[lane_id] = kNever; }

 private:
  void wake(uint32_t core);

  const SharedCores& shares_;
  EventList& events_;
  const uint32_t workers_;
  std::optional<CoreTurns> turns_;
  std::vector<int64_t> wakes_;       ///< [processor]: when it is looked at
  std::vector<uint32_t> computing_;  ///< [worker]: lane_of()
  std::vector<int64_t> held_until_;  ///< [lane of a worker]; kNever: none waits
};

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reference evaluator's lanes; run_events() is its only user.
#include <cstdint>

#include "sim/evaluate/event_messages.h"
#include "sim/evaluate/event_state.h"
#include "sim/evaluate/meetings.h"

namespace tandem::sim {

/// Takes the lanes of repeating instances through their ops. For one thread at a time.
class EventEngine final : private OpEnds {
 public:
  EventEngine(const BoundProgram& plan, const EvaluateOptions& options);
  Trace run();

 private:
  using State = EventLane::State;
  void begin();
  void dispatch(uint64_t data);
  void payloads_left();
  void core_event(uint32_t core);
  void op_ended(uint32_t lane_id);
  void complete(uint32_t r, uint32_t instance, int lane, int64_t start) override {
    complete(r, instance, lane, start, 0);
  }
  void complete(uint32_t r, uint32_t instance, int lane, int64_t start, uint32_t last);
  void try_lane(uint32_t r, uint32_t instance, int lane);
  static bool ready(const EventRole& role, const EventLane* lanes, uint32_t iteration, const Op& op);
  void next_iteration(uint32_t r, uint32_t instance, int lane);
  void begin_iteration(uint32_t worker, uint32_t iteration);
  void finish_lane(uint32_t r, uint32_t instance, int lane);
  void start_op(uint32_t r, uint32_t instance, int lane, uint32_t op);
  void start_transfer(const OpRun& run, uint32_t lane_id);
  void start_collective(uint32_t r, uint32_t instance, uint32_t op);
  bool hold_send(uint32_t worker, uint32_t lane_id);
  void let_send(uint32_t lane_id);
  void check_finished() const;

  EventState state_;
  Meetings meetings_;
  EventMessages messages_;
  int64_t open_lanes_ = 0;  ///< of the measured job, not finished
};

}  // namespace tandem::sim

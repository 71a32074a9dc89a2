// SPDX-License-Identifier: Apache-2.0
#pragma once
// What lanes and messages have in common in the event evaluator.
#include <cstdint>
#include <vector>

#include "sim/evaluate/event_list.h"
#include "sim/evaluate/event_roles.h"
#include "sim/evaluate/link_traffic.h"
#include "sim/evaluate/op_times.h"
#include "sim/evaluate/recorder.h"
#include "sim/evaluate/shared_processors.h"
#include "sim/evaluate/trace.h"
#include "sim/evaluate/worker_iterations.h"

namespace tandem::sim {

/// A lane of a repeating instance: its ops before (iteration, op) are done.
struct EventLane {
  enum class State : uint8_t { blocked, running, waiting, finished };
  int64_t start = 0;  ///< of the op that runs
  int64_t ready = 0;  ///< the same, without waiting for other members of a collective
  uint32_t iteration = 0;
  uint32_t op = 0;       ///< in the role's list; its end, after the lane's last
  uint32_t sending = 0;  ///< messages of a send that have not left yet; of a recv that waits its port
  State state = State::blocked;
};

/// For one thread at a time.
struct EventState {
  EventState(const BoundProgram& bound, const EvaluateOptions& options)
      : plan(bound),
        program(*bound.program),
        recorder(bound, options, trace),
        roles(bound),
        traffic(bound, events),
        processors(bound, roles.workers(), events),
        times(bound, roles, recorder),
        iterations(bound, roles, options, recorder, trace),
        lanes(std::size_t{roles.instances()} * kLanes) {}
  int64_t now() const { return events.now(); }
  EventLane* lanes_of(uint32_t global) { return &lanes[std::size_t{global} * kLanes]; }
  const EventLane* lanes_of(uint32_t global) const { return &lanes[std::size_t{global} * kLanes]; }
  bool computes(uint32_t global) const {
    return lanes_of(global)[static_cast<int>(Lane::compute)].state == EventLane::State::running;
  }

  const BoundProgram& plan;
  const Program& program;
  Trace trace;
  Recorder recorder;
  const EventRoles roles;
  EventList events;
  LinkTraffic traffic;
  SharedProcessors processors;
  OpTimes times;
  WorkerIterations iterations;
  std::vector<EventLane> lanes;  ///< [global instance * kLanes + lane]
};

/// Who is told that an op of a repeating instance that takes part in messages has ended.
class OpEnds {
 public:
  virtual ~OpEnds() = default;
  /// `start`: when it began.
  virtual void complete(uint32_t r, uint32_t instance, int lane, int64_t start) = 0;
};

}  // namespace tandem::sim

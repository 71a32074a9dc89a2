// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/until.h"

namespace tandem::sim {

namespace {

constexpr uint32_t kRoundsBetweenChecks = 256;

}  // namespace

EventEngine::EventEngine(const BoundProgram& plan, const EvaluateOptions& options)
    : state_(plan, options), meetings_(state_.program, state_.roles), messages_(state_, *this) {}

Trace EventEngine::run() {
  state_.trace.evaluator = "events";
  begin();
  state_.traffic.update();
  EventList& events = state_.events;
  for (uint32_t rounds = 0; !events.empty() && (state_.plan.measured_roles == 0 || open_lanes_ > 0);
       ++rounds) {
    if (rounds % kRoundsBetweenChecks == 0) Until::check();
    for (const MonotoneQueue::Item& item : events.next_round()) dispatch(item.data);
    if (!events.more_now()) state_.traffic.update();
  }
  check_finished();
  state_.recorder.finish();
  state_.trace.versions = messages_.versions();
  return std::move(state_.trace);
}

void EventEngine::begin() {
  const EventRoles& roles = state_.roles;
  const int32_t iterations = state_.iterations.asked();
  for (uint32_t r = 0; r < roles.count(); ++r) {
    const EventRole& role = roles[r];
    if (role.serves) continue;
    for (uint32_t i = 0; i < role.count; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        EventLane& state = state_.lanes_of(role.base + i)[lane];
        state.op = role.first[lane];
        if ((role.lanes >> lane & 1U) == 0 || iterations <= 0) {
          state.state = State::finished;
        } else if (state_.plan.measured(r)) {
          ++open_lanes_;
        }
      }
      if (role.lanes == 0 && r == 0)
        state_.iterations.ended(i, static_cast<uint32_t>(std::max(iterations, 0)), 0);
    }
  }
  for (uint32_t i = 0; i < roles.workers(); ++i) begin_iteration(i, 0);
  for (uint32_t r = 0; r < roles.count(); ++r) {
    for (uint32_t i = 0; i < roles[r].count && !roles[r].serves; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) try_lane(r, i, lane);
    }
  }
}

void EventEngine::dispatch(uint64_t data) {
  if (data == event::kFlows) return payloads_left();
  const uint32_t lane_id = event::lane(data), slot = event::slot(data);
  if (lane_id == event::kCore) {
    core_event(slot);
  } else if (lane_id == event::kHeld) {
    if (state_.processors.due(slot)) let_send(slot);
  } else if (slot != 0) {
    messages_.came(slot - 1, lane_id);
  } else {
    op_ended(lane_id);
  }
}

void EventEngine::payloads_left() {
  for (const uint64_t data : state_.traffic.left()) {
    int64_t delay = 0;  // a message's latency comes after its payload has left
    if (event::slot(data) == 0) {
      const uint32_t lane_id = event::lane(data);
      const EventLane& lane = state_.lanes[lane_id];
      const auto [index, factor] = state_.times.transfer(
          {state_.roles.of_lane(lane_id), state_.roles.instance_of(lane_id), lane.iteration, lane.op});
      delay = state_.plan.transfers[static_cast<std::size_t>(index)].delay(factor).ps;
    }
    state_.events.schedule(delay, data);
  }
}

/// A turn on the processor is over, or somebody's work.
void EventEngine::core_event(uint32_t core) {
  const uint32_t worker = state_.processors.look(core);
  if (worker == CoreTurns::kNobody) return;
  op_ended(state_.processors.lane_of(worker));  // of a lane, or what a server does with its message
  if (!state_.processors.one_thread()) state_.processors.leave(worker);  // unless it goes on
}

/// The worker's compute lane gets to `iteration`. The last that is open decides where everybody ends.
void EventEngine::begin_iteration(uint32_t worker, uint32_t iteration) {
  if (!state_.iterations.begin(worker, iteration)) return;
  for (uint32_t i = 0; i < state_.roles.workers(); ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const EventLane& state = state_.lanes_of(i)[lane];
      const bool stands = state.state == State::blocked || state.state == State::waiting;
      if (stands && state.iteration >= state_.iterations.limit(0, i)) finish_lane(0, i, lane);
    }
  }
}

void EventEngine::finish_lane(uint32_t r, uint32_t instance, int lane) {
  state_.lanes_of(state_.roles[r].base + instance)[lane].state = State::finished;
  if (state_.plan.measured(r)) --open_lanes_;
  if (r != 0) return;
  if (lane == static_cast<int>(Lane::compute)) state_.processors.leave(instance);
  messages_.lane_finished(instance);
}

/// A send during a computation on the same processor may have to wait.
bool EventEngine::hold_send(uint32_t worker, uint32_t lane_id) {
  SharedProcessors& processors = state_.processors;
  if (!processors.shared() || processors.one_thread() ||
      lane_id % kLanes == static_cast<uint32_t>(Lane::compute) || !state_.computes(worker))
    return false;
  processors.hold(worker, lane_id);
  return true;
}

void EventEngine::let_send(uint32_t lane_id) {
  state_.processors.release(lane_id);
  messages_.send(0, lane_id / kLanes, static_cast<int>(lane_id % kLanes), state_.lanes[lane_id].op);
}

void EventEngine::op_ended(uint32_t lane_id) {
  const uint32_t global = lane_id / kLanes;
  const int lane = static_cast<int>(lane_id % kLanes);
  const uint32_t r = state_.roles.of(global);
  const EventRole& role = state_.roles[r];
  if (role.serves) return messages_.service_ended(global);
  if (lane == static_cast<int>(Lane::compute)) {
    if (const int64_t owed = state_.times.pay_back(global); owed > 0)
      return state_.events.schedule(owed, event::of(lane_id));
  }
  const uint32_t instance = global - role.base;
  const EventLane& state = state_.lanes[lane_id];
  const Op& op = role.ops[state.op];
  if (op.kind != OpKind::collective) return complete(r, instance, lane, state.start, 0);
  Meeting& meeting = meetings_.of(r, op);
  const int64_t start = state.start;
  const uint32_t group = meeting.groups.of(instance), last = meeting.last[group];
  meeting.arrived[group] = 0;
  for (const uint32_t offset : meeting.groups.offsets()) complete(r, instance + offset, lane, start, last);
}

void EventEngine::complete(uint32_t r, uint32_t instance, int lane, int64_t start, uint32_t last) {
  const EventRole& role = state_.roles[r];
  const uint32_t global = role.base + instance;
  EventLane* const lanes = state_.lanes_of(global);
  EventLane& state = lanes[lane];
  const uint32_t ended = state.op;
  const int64_t now = state_.now();
  state_.recorder.op(r, instance, state.iteration, ended, {state.ready, start, now, last},
                     state_.roles.weight(global));
  state_.recorder.makespan(now);
  state_.times.ended({r, instance, state.iteration, ended}, now);
  state.op = role.next[ended];
  state.state = State::blocked;
  // If thousands of instances continue alternately, what each needs next has left the cache by then.
  __builtin_prefetch(role.ops.data() + std::min<std::size_t>(state.op + 2, role.ops.size()));
  role.each_lane([&](int other) {
    if (lanes[other].state == State::blocked) try_lane(r, instance, other);
  });
  if (!state_.processors.shared() || r != 0 || state_.computes(global)) return;
  role.each_lane([&](int other) {  // who computed waits
    const uint32_t held = global * kLanes + static_cast<uint32_t>(other);
    if (state_.processors.holds(held)) let_send(held);
  });
}

bool EventEngine::ready(const EventRole& role, const EventLane* lanes, uint32_t iteration, const Op& op) {
  for (const Dep& dep : op.deps) {
    const Op& on = role.ops[dep.op];
    if (on.lane == op.lane || dep.lag > iteration || !on.runs(iteration - dep.lag)) continue;
    const EventLane& other = lanes[static_cast<int>(on.lane)];  // its own is in order anyway
    const uint32_t at = iteration - dep.lag;
    if (other.iteration < at || (other.iteration == at && other.op <= dep.op)) return false;
  }
  return true;
}

void EventEngine::try_lane(uint32_t r, uint32_t instance, int lane) {
  const EventRole& role = state_.roles[r];
  EventLane* const lanes = state_.lanes_of(role.base + instance);
  EventLane& state = lanes[lane];
  if (state.state != State::blocked) return;
  for (;;) {
    if (state.op == role.end()) next_iteration(r, instance, lane);
    if (state.iteration >= state_.iterations.limit(r, instance)) return finish_lane(r, instance, lane);
    const Op& op = role.ops[state.op];
    if (op.runs(state.iteration)) {
      if (ready(role, lanes, state.iteration, op)) start_op(r, instance, lane, state.op);
      return;
    }
    state.op = role.next[state.op];
  }
}

void EventEngine::next_iteration(uint32_t r, uint32_t instance, int lane) {
  const EventRole& role = state_.roles[r];
  EventLane* const lanes = state_.lanes_of(role.base + instance);
  lanes[lane].op = role.first[lane];
  if (lane == static_cast<int>(Lane::compute))
    state_.times.iteration_ended(role.base + instance, state_.now());
  ++lanes[lane].iteration;
  if (r != 0) return;
  uint32_t least = UINT32_MAX;
  role.each_lane([&](int other) { least = std::min(least, lanes[other].iteration); });
  state_.iterations.ended(instance, least, state_.now());
  const int leads = std::countr_zero(role.lanes);  // the compute lane, where there is one
  if (lane == leads) begin_iteration(instance, lanes[lane].iteration);
}

void EventEngine::start_op(uint32_t r, uint32_t instance, int lane, uint32_t index) {
  const EventRole& role = state_.roles[r];
  const uint32_t lane_id = (role.base + instance) * kLanes + static_cast<uint32_t>(lane);
  EventLane& state = state_.lanes[lane_id];
  const int64_t now = state_.now();
  state.start = state.ready = now;
  state.state = State::running;
  if (instance == 0 && state_.recorder.tracks(r)) state_.recorder.ready(r, state.iteration, index, now);
  const OpRun run{r, instance, state.iteration, index};
  switch (role.ops[index].kind) {
    case OpKind::compute: {
      const int64_t work = state_.times.compute(run, now);
      if (state_.processors.shared() && r == 0 && launched(role.ops[index])) {
        state_.processors.work(instance, lane_id, work);
      } else {
        state_.events.schedule(work, event::of(lane_id));
      }
      break;
    }
    case OpKind::copy:
      start_transfer(run, lane_id);
      break;
    case OpKind::collective:
      start_collective(r, instance, index);
      break;
    case OpKind::send:
      if (r == 0 && hold_send(instance, lane_id)) break;
      messages_.send(r, instance, lane, index);
      break;
    case OpKind::recv:
      messages_.receive(r, instance, lane, index);
      break;
    case OpKind::apply:
    case OpKind::gate:
      throw ProgramError(fmt::format("role \"{}\", op {}: {} in a role that serves no messages",
                                     role.role->name, index, name(role.ops[index].kind)));
  }
}

void EventEngine::start_transfer(const OpRun& run, uint32_t lane_id) {
  const auto [index, factor] = state_.times.transfer(run);
  state_.recorder.transfer(index);
  state_.traffic.start(index, factor, event::of(lane_id));
}

void EventEngine::start_collective(uint32_t r, uint32_t instance, uint32_t index) {
  const EventRole& role = state_.roles[r];
  const Op& op = role.ops[index];
  Meeting& meeting = meetings_.of(r, op);
  const uint32_t group = meeting.groups.of(instance);
  const uint32_t first = meeting.groups.first(group);
  const auto lane = static_cast<int>(op.lane);
  state_.lanes_of(role.base + instance)[lane].state = State::waiting;
  uint32_t& last = meeting.last[group];
  const bool tied =
      meeting.arrived[group] > 0 && state_.lanes_of(role.base + last)[lane].ready == state_.now();
  last = tied ? std::min(last, instance) : instance;
  if (++meeting.arrived[group] < meeting.groups.size()) return;
  for (const uint32_t offset : meeting.groups.offsets())
    state_.lanes_of(role.base + first + offset)[lane].state = State::running;
  EventLane& leader = state_.lanes_of(role.base + first)[lane];
  leader.start = state_.now();
  start_transfer({r, first, leader.iteration, index},
                 (role.base + first) * kLanes + static_cast<uint32_t>(lane));
}

void EventEngine::check_finished() const {
  if (state_.traffic.under_way() && state_.plan.measured_roles == 0)
    throw InputError("a transfer takes longer than 26 days of simulated time");
  for (uint32_t r = 0; r < state_.roles.count(); ++r) {
    const EventRole& role = state_.roles[r];
    if (role.serves || !state_.plan.measured(r)) continue;
    for (uint32_t l = 0; l < role.count * kLanes; ++l) {
      const EventLane& state = state_.lanes_of(role.base)[l];
      if (state.state == State::finished) continue;
      throw ProgramError(
          fmt::format("deadlock: role \"{}\", instance {} never gets past op {} ({}) of iteration {}",
                      role.role->name, l / kLanes, state.op, name(role.ops[state.op].kind), state.iteration));
    }
  }
}

}  // namespace tandem::sim

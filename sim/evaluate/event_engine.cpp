// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

namespace tandem::sim {

EventEngine::EventEngine(const BoundProgram& plan, const EvaluateOptions& options)
    : plan_(plan),
      program_(*plan.program),
      options_(options),
      recorder_(plan, options, trace_),
      calm_(plan.disturbance.none()),
      flows_(serves_in_turn(program_) ? std::vector<double>{} : plan.capacity) {
  if (serves_in_turn(program_)) queues_.emplace(plan.capacity);
  rate_alone_.reserve(plan.transfers.size());
  for (const Transfer& t : plan.transfers) rate_alone_.push_back(t.rate_alone(plan.capacity));
  uint64_t instances = 0;
  for (const Role& role : program_.roles) instances += static_cast<uint64_t>(role.mesh.size());
  if (instances >= UINT32_MAX / kLanes)
    throw InputError("more than 2^30 instances cannot be simulated event by event");
  roles_.resize(program_.roles.size());
  rendezvous_.resize(roles_.size());
  shared_.resize(roles_.size());
  lanes_.resize(instances * kLanes);
  for (uint32_t r = 0; r < roles_.size(); ++r) build_role(r);
  completed_.assign(roles_[0].count, 0);
  count_iterations();
  if (!calm_) iteration_factor_.assign(instances, {kNone, 1.0});
  waited_.assign(instances, 0);
  if (plan_.disturbance.shared.cores > 0) {
    turns_.emplace(plan_.disturbance.shared, roles_[0].count, plan_.seed);
    core_wakes_.assign(plan_.disturbance.shared.cores, kNever);
    computing_.assign(roles_[0].count, 0);
    held_until_.assign(std::size_t{roles_[0].count} * kLanes, kNever);
  }
  host_.resize(instances);
  build_messages();
}

void EventEngine::build_role(uint32_t r) {
  RoleInfo& info = roles_[r];
  info.role = &program_.roles[r];
  info.costs = &plan_.roles.at(r);
  info.base = r == 0 ? 0 : roles_[r - 1].base + roles_[r - 1].count;
  info.count = static_cast<uint32_t>(info.role->mesh.size());
  info.serves = info.role->on_channel >= 0;
  role_of_.insert(role_of_.end(), info.count, r);
  for (uint32_t i = 0; i < info.count; ++i) weight_.push_back(Recorder::weight(r, i));
  const OpList& list = info.role->ops;
  info.ops = {list.begin(), list.end()};
  const std::span<const Op> ops = info.ops;
  const auto end = static_cast<uint32_t>(ops.size());
  info.issues = !info.costs->issued.empty();
  info.next.assign(end, end);
  uint32_t* last[kLanes];  // what the next op of a lane is written to
  for (int lane = 0; lane < kLanes; ++lane) *(last[lane] = &info.first[lane]) = end;
  // Collectives on the same axes and lane meet in the same groups.
  std::map<std::pair<uint32_t, Lane>, uint32_t> known;
  shared_[r].assign(program_.collectives.size() * kLanes, kNone);
  for (uint32_t o = 0; o < end; ++o) {
    const Op& op = ops[o];
    uint32_t*& of_lane = last[static_cast<int>(op.lane)];
    *of_lane = o;
    of_lane = &info.next[o];
    info.lanes = static_cast<uint16_t>(info.lanes | 1U << static_cast<int>(op.lane));
    if (op.kind != OpKind::collective) continue;
    const uint32_t axes = program_.collectives[op.what].axes;
    const auto [at, fresh] = known.try_emplace({axes, op.lane}, static_cast<uint32_t>(rendezvous_[r].size()));
    shared_[r][op.what * kLanes + static_cast<uint32_t>(op.lane)] = at->second;
    if (!fresh) continue;
    Rendezvous& meeting = rendezvous_[r].emplace_back();
    meeting.groups.emplace(info.role->mesh, axes);
    meeting.arrived.assign(meeting.groups->count(), 0);
    meeting.last.assign(meeting.groups->count(), 0);
  }
}

EventEngine::Rendezvous& EventEngine::meeting_of(uint32_t r, const Op& op) {
  return rendezvous_[r][shared_[r][op.what * kLanes + static_cast<uint32_t>(op.lane)]];
}

uint32_t EventEngine::class_of(const RoleInfo& info, uint32_t instance) const {
  return info.costs->class_of.empty() ? 0 : info.costs->class_of[instance];
}

void EventEngine::schedule(int64_t after, uint64_t data) {
  if (after >= kNever - now_)
    throw InputError("the simulated time exceeds 26 days; simulate fewer iterations");
  queue_.push(now_ + after, data);
}

Trace EventEngine::run() {
  trace_.evaluator = "events";
  begin();
  if (flows_.pending()) {
    flows_.update(now_);
    wake_flows();
  }
  while (!queue_.empty() && (plan_.measured_roles == 0 || open_lanes_ > 0)) {
    queue_.pop_batch(batch_);
    now_ = batch_.front().time;
    if (batch_.size() > 1) sort_batch();
    for (const MonotoneQueue::Item& item : batch_) dispatch(item.data);
    if (flows_.pending() && !queue_.more_now()) {
      flows_.update(now_);
      wake_flows();
    }
  }
  check_finished();
  recorder_.finish();
  for (std::size_t s = 0; s < stores_.size(); ++s) {
    if (plan_.measured(program_.stores[s].role)) trace_.versions += stores_[s].versions();
  }
  return std::move(trace_);
}

/// By lane; of one lane as scheduled. What ran in the order of lanes mostly schedules two such runs.
void EventEngine::sort_batch() {
  const auto earlier = [](const MonotoneQueue::Item& a, const MonotoneQueue::Item& b) {
    return a.data >> 32 < b.data >> 32;
  };
  const auto second = std::is_sorted_until(batch_.begin(), batch_.end(), earlier);
  if (second == batch_.end()) return;
  if (std::is_sorted(second, batch_.end(), earlier))
    std::inplace_merge(batch_.begin(), second, batch_.end(), earlier);
  else
    std::stable_sort(batch_.begin(), batch_.end(), earlier);
}

void EventEngine::wake_flows() {
  if (flows_.next() >= wake_at_) return;
  wake_at_ = flows_.next();
  queue_.push(wake_at_, kWake);
}

void EventEngine::count_iterations() {
  const auto each = static_cast<uint32_t>(std::max(options_.iterations, 0));
  const uint32_t workers = roles_[0].count;
  iterations_.free_running = each > 0 && free_running(program_, plan_.measured_roles);
  iterations_.limit.assign(workers, iterations_.free_running ? kNone : each);
  if (!iterations_.free_running) return;
  iterations_.groups.emplace(roles_[0].role->mesh, meeting_axes(program_));
  iterations_.begun.assign(iterations_.groups->count(), 0);
  iterations_.open = int64_t{each} * iterations_.groups->count();
}

/// The worker's compute lane gets to `iteration`. The last that is open decides where everybody ends.
void EventEngine::begin_iteration(uint32_t worker, uint32_t iteration) {
  if (!iterations_.free_running || iterations_.open == 0) return;
  uint32_t& begun = iterations_.begun[iterations_.groups->of(worker)];
  if (iteration < begun) return;
  const auto step = static_cast<uint32_t>(program_.micro_batches);
  begun += step;
  iterations_.open -= step;
  if (iterations_.open > 0 || prolong()) return;
  for (uint32_t i = 0; i < roles_[0].count; ++i)
    iterations_.limit[i] = iterations_.begun[iterations_.groups->of(i)];
  for (uint32_t i = 0; i < roles_[0].count; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const LaneState& state = lanes_[i * std::size_t{kLanes} + static_cast<std::size_t>(lane)];
      const bool stands = state.state == State::blocked || state.state == State::waiting;
      if (stands && state.iteration >= iterations_.limit[i]) finish_lane(0, i, lane);
    }
  }
}

/// All iterations have begun. Where those ended do not tell a steady rate, they become the run-in, and as
/// many more are made as may be.
bool EventEngine::prolong() {
  const int32_t more = options_.most_iterations - options_.iterations;
  const int64_t ended = trace_.worker_iterations / int64_t{roles_[0].count};
  if (more <= 0 || steady(options_.run_in, ended)) return false;
  options_.iterations += more;
  options_.run_in = trace_.run_in = static_cast<int32_t>(ended);
  iterations_.open += int64_t{more} * iterations_.groups->count();
  trace_.iteration_end.resize(static_cast<std::size_t>(options_.iterations));
  trace_.staleness = {};
  for (Histogram& of_worker : trace_.staleness_by_worker) of_worker = {};
  trace_.dropped = 0;
  recorder_.forget_time();
  return true;
}

/// The iterations from `first` up to `ended` are equal, and not longer or shorter towards their end.
bool EventEngine::steady(int64_t first, int64_t ended) const {
  constexpr double kSpread = 0.05, kDrift = 0.01;  // where the network decides, they spread by 20 % and more
  const int64_t half = (ended - first) / 2;
  if (first == 0 || half <= 0) return true;
  std::vector<double> length;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(ended); ++i)
    length.push_back((trace_.iteration_end[i] - trace_.iteration_end[i - 1]).seconds());
  const auto [least, most] = std::minmax_element(length.begin(), length.end());
  const double early = std::accumulate(length.begin(), length.begin() + half, 0.0),
               late = std::accumulate(length.end() - half, length.end(), 0.0);
  return *most <= *least * (1 + kSpread) && std::abs(early / late - 1) <= kDrift;
}

uint32_t EventEngine::limit(uint32_t r, uint32_t instance) const {
  if (!plan_.measured(r)) return kNone;
  return r == 0 ? iterations_.limit[instance] : static_cast<uint32_t>(options_.iterations);
}

void EventEngine::finish_lane(uint32_t r, uint32_t instance, int lane) {
  LaneState* const lanes = &lanes_[(roles_[r].base + instance) * std::size_t{kLanes}];
  lanes[lane].state = State::finished;
  if (plan_.measured(r)) --open_lanes_;
  if (r == 0 && lane == static_cast<int>(Lane::compute)) leave_core(instance);
  if (r != 0 || unhandled_.empty() || unhandled_[instance] > 0) return;
  leave_stores(instance);
  Message last;
  last.sender = instance;
  last.way.sent = last.way.arrived = now_;
  pass_gates(last);
}

void EventEngine::begin() {
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    const RoleInfo& info = roles_[r];
    if (info.serves) continue;
    for (uint32_t i = 0; i < info.count; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        LaneState& state = lanes_[(info.base + i) * std::size_t{kLanes} + static_cast<std::size_t>(lane)];
        state.op = info.first[lane];
        if ((info.lanes >> lane & 1U) == 0 || options_.iterations <= 0) {
          state.state = State::finished;
        } else if (plan_.measured(r)) {
          ++open_lanes_;
        }
      }
      if (info.lanes == 0) {
        for (int32_t k = 0; r == 0 && k < options_.iterations; ++k)
          recorder_.iteration(i, static_cast<uint32_t>(k), 0);
      }
    }
  }
  for (uint32_t i = 0; i < roles_[0].count; ++i) begin_iteration(i, 0);
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    for (uint32_t i = 0; i < roles_[r].count && !roles_[r].serves; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) try_lane(r, i, lane);
    }
  }
}

void EventEngine::dispatch(uint64_t data) {
  if (data == kWake) {
    if (now_ < wake_at_) return;  // an earlier finish was scheduled meanwhile and has come
    wake_at_ = kNever;
    flown_.clear();
    if (flows_.next() <= now_) flows_.finish(now_, flown_);
    for (const uint64_t tag : flown_) {
      int64_t delay = 0;  // a message's latency comes after its payload has left
      if ((tag & kNone) == 0) {
        const auto lane_id = static_cast<uint32_t>(tag >> 32);
        const uint32_t r = role_of(lane_id / kLanes), i = lane_id / kLanes - roles_[r].base;
        const LaneState& lane = lanes_[lane_id];
        const auto [index, factor] = transfer_of(r, i, lane.iteration, lane.op);
        delay = plan_.transfers[static_cast<std::size_t>(index)].delay(factor).ps;
      }
      schedule(delay, tag);
    }
    if (flown_.empty()) wake_flows();
    return;
  }
  const auto lane_id = static_cast<uint32_t>(data >> 32);
  const auto slot = static_cast<uint32_t>(data);
  if (lane_id == kCoreLane) {
    look_at_core(slot);
  } else if (lane_id == kHeldLane) {
    if (held_until_[slot] == now_) let_send(slot);
  } else if (slot != 0) {
    message_event(slot - 1, lane_id);
  } else {
    op_ended(lane_id);
  }
}

/// A turn on the processor is over, or somebody's work.
void EventEngine::look_at_core(uint32_t core) {
  if (now_ < core_wakes_[core]) return;  // an earlier look was scheduled meanwhile and has come
  core_wakes_[core] = kNever;
  if (turns_->next(core) > now_) return wake_core(core);
  const uint32_t worker = turns_->look(core, now_);
  wake_core(core);
  if (worker == CoreTurns::kNobody) return;
  op_ended(computing_[worker]);  // of a lane, or what a server does with its message
  if (!plan_.disturbance.shared.one_thread) leave_core(worker);  // unless it goes on
}

/// The op of lane `lane_id` ends when the worker has done so much.
void EventEngine::work_in_turn(uint32_t worker, uint32_t lane_id, int64_t work) {
  computing_[worker] = lane_id;
  turns_->want(worker, work, now_);
  wake_core(turns_->core_of(worker));
}

void EventEngine::wake_core(uint32_t core) {
  if (turns_->next(core) >= core_wakes_[core]) return;
  core_wakes_[core] = turns_->next(core);
  schedule(core_wakes_[core] - now_, uint64_t{kCoreLane} << 32 | core);
}

/// The worker waits for others.
void EventEngine::leave_core(uint32_t worker) {
  if (!turns_ || worker >= roles_[0].count) return;
  turns_->leave(worker, now_);
  wake_core(turns_->core_of(worker));
}

/// A send during a computation on the same processor waits until that one's time slice is over, or it waits
/// itself.
bool EventEngine::hold_send(uint32_t worker, uint32_t lane_id) {
  const uint32_t compute = worker * kLanes + static_cast<uint32_t>(Lane::compute);
  if (!turns_ || plan_.disturbance.shared.one_thread || lane_id == compute ||
      lanes_[compute].state != State::running)
    return false;
  held_until_[lane_id] = turns_->turn_end(worker, now_);
  schedule(held_until_[lane_id] - now_, uint64_t{kHeldLane} << 32 | lane_id);
  return true;
}

void EventEngine::let_send(uint32_t lane_id) {
  held_until_[lane_id] = kNever;
  send(0, lane_id / kLanes, static_cast<int>(lane_id % kLanes), lanes_[lane_id].op);
}

void EventEngine::op_ended(uint32_t lane_id) {
  const uint32_t global = lane_id / kLanes;
  const int lane = static_cast<int>(lane_id % kLanes);
  const uint32_t r = role_of(global);
  RoleInfo& info = roles_[r];
  if (info.serves) return service_ended(global);
  if (pays_back(lane_id)) return;
  const uint32_t instance = global - info.base;
  const LaneState& state = lanes_[lane_id];
  const uint32_t op = state.op;
  if (info.ops[op].kind != OpKind::collective) return complete(r, instance, lane, state.start);
  Rendezvous& meeting = meeting_of(r, info.ops[op]);
  const int64_t start = state.start;
  const uint32_t group = meeting.groups->of(instance), last = meeting.last[group];
  meeting.arrived[group] = 0;
  for (const uint32_t offset : meeting.groups->offsets()) complete(r, instance + offset, lane, start, last);
}

void EventEngine::complete(uint32_t r, uint32_t instance, int lane, int64_t start, uint32_t last) {
  const RoleInfo& info = roles_[r];
  const uint32_t global = info.base + instance;
  LaneState* const lanes = &lanes_[std::size_t{global} * kLanes];
  LaneState& state = lanes[lane];
  const uint32_t ended = state.op;
  recorder_.op(r, instance, state.iteration, ended, {state.ready, start, now_, last}, weight_[global]);
  recorder_.makespan(now_);
  if (info.issues && HostClock::waits_for(*info.costs, info.ops[ended].kind, ended, state.iteration))
    host_[global].ended(*info.costs, class_of(info, instance), ended, state.iteration, now_);
  state.op = info.next[ended];
  state.state = State::blocked;
  // If thousands of instances continue alternately, what each needs next has left the cache by then.
  __builtin_prefetch(info.ops.data() + std::min<std::size_t>(state.op + 2, info.ops.size()));
  each_lane(info, [&](int other) {
    if (lanes[other].state == State::blocked) try_lane(r, instance, other);
  });
  if (!turns_ || r != 0 || lanes[static_cast<int>(Lane::compute)].state == State::running) return;
  each_lane(info, [&](int other) {  // who computed waits
    const uint32_t held = global * kLanes + static_cast<uint32_t>(other);
    if (held_until_[held] != kNever) let_send(held);
  });
}

bool EventEngine::ready(const RoleInfo& info, const LaneState* lanes, uint32_t iteration, const Op& op) {
  for (const Dep& dep : op.deps) {
    const Op& on = info.ops[dep.op];
    if (on.lane == op.lane || dep.lag > iteration || !on.runs(iteration - dep.lag)) continue;
    const LaneState& other = lanes[static_cast<int>(on.lane)];  // its own is in order anyway
    const uint32_t at = iteration - dep.lag;
    if (other.iteration < at || (other.iteration == at && other.op <= dep.op)) return false;
  }
  return true;
}

void EventEngine::try_lane(uint32_t r, uint32_t instance, int lane) {
  const RoleInfo& info = roles_[r];
  LaneState* const lanes = &lanes_[std::size_t{info.base + instance} * kLanes];
  LaneState& state = lanes[lane];
  if (state.state != State::blocked) return;
  const auto end = static_cast<uint32_t>(info.ops.size());
  const int leads = std::countr_zero(info.lanes);  // the compute lane, where there is one
  for (;;) {
    if (state.op == end) {
      state.op = info.first[lane];
      if (lane == static_cast<int>(Lane::compute)) waited_[info.base + instance] = now_;
      ++state.iteration;
      if (r == 0) wrap(r, instance);
      if (r == 0 && lane == leads) begin_iteration(instance, state.iteration);
    }
    if (state.iteration >= limit(r, instance)) return finish_lane(r, instance, lane);
    const Op& op = info.ops[state.op];
    if (op.runs(state.iteration)) {
      if (ready(info, lanes, state.iteration, op)) start_op(r, instance, lane, state.op);
      return;
    }
    state.op = info.next[state.op];
  }
}

void EventEngine::wrap(uint32_t r, uint32_t instance) {
  const RoleInfo& info = roles_[r];
  const LaneState* const lanes = &lanes_[std::size_t{info.base + instance} * kLanes];
  uint32_t least = UINT32_MAX;
  each_lane(info, [&](int lane) { least = std::min(least, lanes[lane].iteration); });
  while (completed_[instance] < least) recorder_.iteration(instance, completed_[instance]++, now_);
}

double EventEngine::compute_factor(uint32_t r, uint32_t instance, uint32_t iteration, uint32_t op) {
  if (calm_) return 1;
  auto& [known, factor] = iteration_factor_[roles_[r].base + instance];
  if (known != iteration) {
    known = iteration;
    factor = plan_.iteration_factor(r, instance, iteration);
  }
  return factor * plan_.op_factor(r, instance, iteration, op);
}

std::pair<int32_t, double> EventEngine::transfer_of(uint32_t r, uint32_t instance, uint32_t iteration,
                                                    uint32_t op) const {
  const int32_t index = roles_[r].costs->transfer[class_of(roles_[r], instance)][op];
  return {index, calm_ ? 1.0 : plan_.transfer_factor(r, instance, iteration, op)};
}

/// From now to the end of a compute op, which waits for the host to have issued it where it is launched.
int64_t EventEngine::compute_time(uint32_t r, uint32_t instance, uint32_t iteration, uint32_t op) {
  const RoleInfo& info = roles_[r];
  const uint32_t c = class_of(info, instance);
  const int64_t works = scaled(info.costs->duration[c][op], compute_factor(r, instance, iteration, op)).ps;
  if (!launched(info.ops[op])) return works;
  const int64_t late =
      host_[info.base + instance].issued(*info.costs, c, op, iteration, waited_[info.base + instance]) -
      (now_ + works);
  if (!taken_.empty()) {
    TakenDevice& taken = taken_[info.base + instance];
    taken.owed = std::max<int64_t>(0, taken.until - now_);
    taken.spare = std::max<int64_t>(0, late);
  }
  if (late <= 0) return works;
  if (instance == 0 && recorder_.tracks(r)) recorder_.launch(late);
  return works + late;
}

void EventEngine::start_op(uint32_t r, uint32_t instance, int lane, uint32_t index) {
  const RoleInfo& info = roles_[r];
  const uint32_t lane_id = (info.base + instance) * kLanes + static_cast<uint32_t>(lane);
  LaneState& state = lanes_[lane_id];
  state.start = state.ready = now_;
  state.state = State::running;
  if (instance == 0 && recorder_.tracks(r)) recorder_.ready(r, state.iteration, index, now_);
  switch (info.ops[index].kind) {
    case OpKind::compute: {
      const int64_t work = compute_time(r, instance, state.iteration, index);
      if (turns_ && r == 0 && launched(info.ops[index])) {
        work_in_turn(instance, lane_id, work);
      } else {
        schedule(work, uint64_t{lane_id} << 32);
      }
      break;
    }
    case OpKind::copy: {
      const auto [t, factor] = transfer_of(r, instance, state.iteration, index);
      const Transfer& transfer = plan_.transfers.at(static_cast<std::size_t>(t));
      recorder_.transfer(t);
      start_transfer(transfer, rate_alone_[static_cast<std::size_t>(t)], factor, transfer.delay(factor).ps,
                     uint64_t{lane_id} << 32);
      break;
    }
    case OpKind::collective:
      start_collective(r, instance, index);
      break;
    case OpKind::send:
      if (r == 0 && hold_send(instance, lane_id)) break;
      send(r, instance, lane, index);
      break;
    case OpKind::recv:
      receive(r, instance, lane, index);
      break;
    case OpKind::apply:
    case OpKind::gate:
      throw ProgramError(fmt::format("role \"{}\", op {}: {} in a role that serves no messages",
                                     info.role->name, index, name(info.ops[index].kind)));
  }
}

void EventEngine::start_collective(uint32_t r, uint32_t instance, uint32_t index) {
  const RoleInfo& info = roles_[r];
  const Op& op = info.ops[index];
  Rendezvous& meeting = meeting_of(r, op);
  const uint32_t group = meeting.groups->of(instance);
  const uint32_t first = meeting.groups->first(group);
  const auto lane = static_cast<uint32_t>(op.lane);
  LaneState& state = lanes_[(info.base + instance) * kLanes + lane];
  state.state = State::waiting;
  uint32_t& last = meeting.last[group];
  const bool tied = meeting.arrived[group] > 0 && lanes_[(info.base + last) * kLanes + lane].ready == now_;
  last = tied ? std::min(last, instance) : instance;
  if (++meeting.arrived[group] < meeting.groups->size()) return;
  for (const uint32_t offset : meeting.groups->offsets())
    lanes_[(info.base + first + offset) * kLanes + lane].state = State::running;
  LaneState& leader = lanes_[(info.base + first) * kLanes + lane];
  leader.start = now_;
  const auto [t, factor] = transfer_of(r, first, leader.iteration, index);
  const Transfer& transfer = plan_.transfers.at(static_cast<std::size_t>(t));
  recorder_.transfer(t);
  start_transfer(transfer, rate_alone_[static_cast<std::size_t>(t)], factor, transfer.delay(factor).ps,
                 uint64_t{(info.base + first) * kLanes + lane} << 32);
}

/// The event `data` comes when the payload has left, and for an op's end `delay` after that. `rate`: alone,
/// of a transfer that does not share.
void EventEngine::start_transfer(const Transfer& t, double rate, double factor, int64_t delay,
                                 uint64_t data) {
  if (!shares(t)) {
    schedule(t.payload(rate, factor).ps + delay, data);
  } else if (queues_) {
    schedule(queues_->pass(now_, t.uses, t.cap, t.bytes * factor) - now_ + delay, data);
  } else {
    flows_.start(now_, t.uses, t.cap, t.bytes * factor, data);
  }
}

void EventEngine::check_finished() const {
  if (flows_.active() > 0 && plan_.measured_roles == 0)
    throw InputError("a transfer takes longer than 26 days of simulated time");
  for (uint32_t r = 0; r < roles_.size(); ++r) {
    const RoleInfo& info = roles_[r];
    if (info.serves || !plan_.measured(r)) continue;
    for (std::size_t l = info.base * std::size_t{kLanes}; l < (info.base + info.count) * std::size_t{kLanes};
         ++l) {
      const LaneState& state = lanes_[l];
      if (state.state == State::finished) continue;
      const uint32_t op = state.op;
      throw ProgramError(
          fmt::format("deadlock: role \"{}\", instance {} never gets past op {} ({}) of iteration {}",
                      info.role->name, l / kLanes - info.base, op, name(info.ops[op].kind), state.iteration));
    }
  }
}

}  // namespace tandem::sim

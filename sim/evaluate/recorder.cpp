// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/recorder.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

namespace tandem::sim {

double Periods::rate(int64_t until, const std::vector<uint32_t>& made,
                     const std::vector<int64_t>& last) const {
  double rate = 0;
  for (std::size_t w = 0; w < ends_.size(); ++w) {
    const auto& ends = ends_[w];
    const auto counted = std::upper_bound(ends.begin(), ends.end(), until) - ends.begin();
    rate += counted > 1
                ? static_cast<double>((counted - 1) * each_) / Time{ends[counted - 1] - ends[0]}.seconds()
                : made[w] / Time{last[w]}.seconds();
  }
  return rate;
}

Recorder::Recorder(const BoundProgram& plan, const EvaluateOptions& options, Trace& trace)
    : plan_(plan),
      options_(options),
      trace_(trace),
      free_running_(free_running(*plan.program, plan.measured_roles)),
      runs_(plan.transfers.size()) {
  const Role& workers = plan.program->roles[0];
  const auto n = static_cast<std::size_t>(workers.mesh.size());
  const auto iterations = static_cast<std::size_t>(std::max(options.iterations, 0));
  kept_ = static_cast<uint32_t>(std::max(options.kept_instances, 1));
  made_.assign(n, free_running_ ? 0 : static_cast<uint32_t>(iterations));
  last_.assign(n, 0);
  if (free_running_ && options.period > 1) periods_.emplace(n, options.period);
  trace_.iteration_end.assign(iterations, Time{});
  trace_.link_bytes.assign(plan.capacity.size(), 0);
  const bool split = !plan.program->grid.axes.empty();
  tracked_.resize(plan.program->roles.size());
  for (uint32_t r = 0; r < tracked_.size(); ++r) {
    const Role& role = plan.program->roles[r];
    if (r > 0 && (!split || !role.works() || !plan.measured(r))) continue;
    Tracked& t = tracked_[r];
    t.role = &role;
    if (role.ops.routines().empty() && !role.ops.empty()) t.plain = &role.ops[0];
    t.lane.resize(role.ops.routines().empty() ? 0 : role.ops.size());
    std::vector<const OpList::Part*> known(role.ops.routines().size());
    for (const OpList::Part& part : role.ops.parts()) {
      const OpList::Part* same = part.routine < 0 ? nullptr : known[static_cast<std::size_t>(part.routine)];
      if (same != nullptr) std::copy_n(t.lane.begin() + same->first, part.count, t.lane.begin() + part.first);
      for (uint32_t i = 0; i < part.count && same == nullptr; ++i) {
        const Op& op = role.ops.stored(part, i);
        if (!t.lane.empty()) t.lane[part.first + i] = op.lane;
        for (const Dep& dep : op.deps) t.numbers.ring = std::max<uint32_t>(t.numbers.ring, dep.lag + 8U);
      }
      if (part.routine >= 0) known[static_cast<std::size_t>(part.routine)] = &part;
      for (const auto& [op, dep] : part.deps)
        t.numbers.ring = std::max<uint32_t>(t.numbers.ring, dep.lag + 8U);
    }
    t.numbers.ops = role.ops.size();
    const std::size_t numbers = std::max<std::size_t>(1, role.ops.size() * t.numbers.ring);
    t.numbers.data.reset(static_cast<uint64_t*>(std::calloc(numbers, sizeof(uint64_t))));
    if (t.numbers.data == nullptr) throw std::bad_alloc();
  }
}

void Recorder::keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, const OpInterval& e,
                    uint32_t count, uint32_t worker) {
  if (instance == 0 && tracks(role)) account(tracked_[role], iteration, op, tracked_[role].op(op), e);
  keep_span(role, instance, iteration, op, e, count, worker);
}

void Recorder::keep_span(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op,
                         const OpInterval& e, uint32_t count, uint32_t worker) {
  if (!plan_.measured(role)) return;  // its iterations are at another rate
  if (iteration + static_cast<uint32_t>(options_.kept_iterations) < made_[worker]) return;
  const auto wanted = static_cast<uint32_t>(std::max(options_.kept_instances, 0));
  for (uint32_t i = instance; i < std::min(instance + count, wanted); ++i) {
    spans_.push_back(
        {{role, i, iteration, op, Time{e.start}, Time{e.end}, Time{e.ready}, e.ready < e.start ? e.last : 0},
         worker});
  }
  if (spans_.size() < most_spans_) return;
  forget_early();
  most_spans_ = std::max(most_spans_, 2 * spans_.size());
}

void Recorder::forget_early() {
  const auto early = [&](const std::pair<Span, uint32_t>& kept) {
    return kept.first.iteration + static_cast<uint32_t>(options_.kept_iterations) < made_[kept.second];
  };
  spans_.erase(std::remove_if(spans_.begin(), spans_.end(), early), spans_.end());
}

void Recorder::iteration(uint32_t instance, uint32_t iteration, int64_t end, uint32_t count) {
  trace_.worker_iterations += count;
  if (!free_running_) {
    Time& latest = trace_.iteration_end[iteration];
    latest.ps = std::max(latest.ps, end);
    return;
  }
  made_[instance] = iteration + 1;
  last_[instance] = end;
  const bool counts = periods_ && made_[instance] >= static_cast<uint32_t>(options_.run_in);
  if (counts && periods_->end(instance, made_[instance], end) && instance == 0) keep_period();
  if (instance == 0 && made_[0] == static_cast<uint32_t>(options_.run_in)) forget_time();
  const auto workers = static_cast<int64_t>(made_.size());
  if (trace_.worker_iterations % workers == 0)
    trace_.iteration_end[static_cast<std::size_t>(trace_.worker_iterations / workers) - 1] = Time{end};
}

Recorder::Sums Recorder::sums() const {
  Sums out;
  std::copy_n(trace_.busy, kLanes, out.busy);
  std::copy_n(trace_.exposed, kWaits, out.exposed);
  std::copy_n(trace_.moved, kMoves, out.moved);
  out.awaited = trace_.awaited;
  return out;
}

void Recorder::keep_period() {
  late_ = sums();
  trace_.timed.to = static_cast<int32_t>(made_[0]);
}

void Recorder::forget_time() {
  early_ = sums();
  trace_.filling = {};
  trace_.timed.from = static_cast<int32_t>(made_[0]);
}

void Recorder::message(const Transfer& transfer) {
  for (const Use& use : transfer.uses) {
    trace_.link_bytes.at(use.link) += transfer.bytes * static_cast<double>(use.weight);
  }
}

void Recorder::Tracked::forget_accounted(const Program& program) {
  for (; recent.size() > 1 && recent.front().end <= compute_end; ++dropped) {
    if (replied(program, *recent.front().op)) {
      ways.pop_front();
      ++dropped_ways;
    }
    recent.pop_front();
  }
}

Recorder::Done Recorder::done(Tracked& t, uint32_t iteration, const Op& op, const OpInterval& e) const {
  Done d{&op, e.ready, e.end, e.start, t.on_lane[static_cast<int>(op.lane)].after, iteration, e.last};
  if (op.kind != OpKind::recv) return d;
  d.start = t.sent;
  d.other = t.peer;
  if (!replied(*plan_.program, op)) return d;
  t.ways.push_back(t.way);
  d.other = t.dropped_ways + static_cast<uint32_t>(t.ways.size());
  return d;
}

Recorder::Stretches Recorder::stretches(const Tracked& t, const Done& d) const {
  const Program& program = *plan_.program;
  const bool split = !program.grid.axes.empty();
  const Op& op = *d.op;
  Stretches out;
  switch (op.kind) {
    case OpKind::copy: {
      const bool input = of_input(program.copies[op.what].kind);
      out.add(d.end, input ? Wait::input : Wait::communication, input ? 0 : kMoveCopy);
      break;
    }
    case OpKind::collective: {
      const int among = !split ? 0 : of_layers(op.payload) ? kMoveTensor : kMoveData;
      out.add(d.start, Wait::waiting, 0, d.other);
      out.add(d.end, Wait::communication, among + static_cast<int>(program.collectives[op.what].kind));
      break;
    }
    case OpKind::send: {
      const bool push = program.channels[op.what].address == Address::shards;
      out.add(d.end, Wait::communication, push ? kMovePush : kMovePeer);
      break;
    }
    case OpKind::recv: {
      if (!replied(program, op)) {
        out.add(d.start, split ? Wait::bubble : Wait::waiting, kMovePeer, d.other);
        out.add(d.end, Wait::communication, split ? kMoveStage : kMovePeer);
        break;
      }
      const Way& way = t.ways[d.other - t.dropped_ways - 1];
      out.add(way.arrived, Wait::communication, kMovePush);
      out.add(way.parked, Wait::server);
      out.add(way.late, Wait::waiting, kMovePush, way.behind);
      out.add(way.flown, Wait::communication, kMovePush);
      out.add(way.opened, Wait::server);
      out.add(way.replied, Wait::server);
      out.add(d.end, Wait::communication, kMovePull);
      break;
    }
    default:  // work: on the host's processors as on a server's
      out.add(d.end, op.lane == Lane::host ? Wait::server : Wait::idle);
  }
  return out;
}

void Recorder::charge(const Tracked& t, Stretch s, int64_t begin) {
  const Time time{s.end - begin};
  trace_.exposed[static_cast<int>(s.wait)] += time;
  if (s.wait == Wait::communication) trace_.moved[s.move] += time;
  if (s.wait == Wait::input && t.compute_end == 0) trace_.filling += time;
  waits_ += s.wait == Wait::waiting ? 1 : 0;
  if (s.wait == Wait::waiting)
    trace_.awaited[static_cast<uint32_t>(grid_device(*plan_.program, *t.role, s.awaited))] += time;
}

/// Charges the time that is not accounted for until `at`, at which the execution `last` ended, to what the
/// chain of executions did that led to it.
void Recorder::charge_chain(Tracked& t, uint64_t last, int64_t at) {
  for (const Done* d = t.number(last); at > t.compute_end && d != nullptr; d = t.number(d->after)) {
    const Stretches spent = stretches(t, *d);
    for (uint32_t i = spent.count; i-- > 0;) {
      Stretch s = spent.of[i];
      const int64_t begin = std::max({t.compute_end, d->ready, i == 0 ? d->ready : spent.of[i - 1].end});
      s.end = std::min(s.end, at);
      if (s.end <= begin) continue;
      charge(t, s, begin);
      at = begin;
    }
  }
  if (at > t.compute_end) charge(t, {at, Wait::idle, 0, 0}, t.compute_end);
}

void Recorder::ready(uint32_t role, uint32_t iteration, uint32_t index, int64_t at) {
  Tracked& t = tracked_[role];
  const Op& op = t.op(index);
  ready_behind(t, iteration, op.lane, at, {op.deps.begin(), op.deps.end()});
}

void Recorder::ready(uint32_t role, uint32_t iteration, const OpPlace& op, int64_t at) {
  if (op.part->routine < 0) {
    const Deps& deps = op.op->deps;
    return ready_behind(tracked_[role], iteration, op.op->lane, at, {deps.begin(), deps.end()});
  }
  deps_.clear();
  each_dep(op, [&](uint32_t on, uint16_t lag) { deps_.push_back({on, lag}); });
  ready_behind(tracked_[role], iteration, op.op->lane, at, deps_);
}

void Recorder::ready_behind(Tracked& t, uint32_t iteration, Lane lane, int64_t at,
                            std::span<const Dep> deps) {
  uint64_t& after = t.on_lane[static_cast<int>(lane)].after;
  after = 0;
  for (const Dep& dep : deps) {
    const Lane other = t.lane_of(dep.op);
    if (dep.lag > iteration || other == Lane::compute || other == lane) continue;
    const uint64_t n = t.numbers.at(dep.op, iteration - dep.lag);
    if (after == 0 && t.ended(n, at) && t.number(n)->iteration == iteration - dep.lag) after = n;
  }
  const uint64_t before = t.on_lane[static_cast<int>(lane)].last;
  if (after == 0 && lane != Lane::compute && t.ended(before, at)) after = before;
  if (lane != Lane::compute || at <= t.compute_end) return;
  charge_chain(t, after, at);
  t.compute_end = at;
}

void Recorder::account(Tracked& t, uint32_t iteration, uint32_t index, const Op& op, const OpInterval& e) {
  t.add(done(t, iteration, op, e));
  const uint64_t n = t.newest;
  t.on_lane[static_cast<int>(op.lane)].last = n;
  if (op.lane != Lane::compute) t.numbers.at(index, iteration) = n;  // work is accounted for at its end
  const auto [end, last] = t.final_end;
  if (e.end > end || (e.end == end && index < last)) {
    t.final_ = n;
    t.final_end = {e.end, index};
  }
  const bool works = op.kind == OpKind::compute || op.kind == OpKind::apply;
  if (op.lane != Lane::compute || works) trace_.busy[static_cast<int>(op.lane)].ps += e.end - e.start;
  if (op.lane != Lane::compute) return;
  if (!works) charge_chain(t, n, e.end);
  t.compute_end = e.end;
  t.forget_accounted(*plan_.program);
}

// A later op asks only for executions that end after all time that is accounted for, which is up to where the
// compute lane is free: what else a call leaves makes no difference.

void Recorder::describe_chain(const Tracked& t, uint64_t n, uint32_t iteration, int64_t begin,
                              std::vector<int64_t>& key) const {
  const auto since = [&](int64_t at) { return std::max<int64_t>(at - begin, 0); };
  for (const Done* d = t.number(n); d != nullptr && d->end > begin; d = t.number(d->after)) {
    const Stretches spent = stretches(t, *d);
    key.insert(key.end(), {iteration - d->iteration, since(d->ready), since(d->end), spent.count});
    for (uint32_t i = 0; i < spent.count; ++i) {
      const Stretch& s = spent.of[i];
      key.insert(key.end(), {since(s.end), static_cast<int64_t>(s.wait), s.move, s.awaited});
    }
  }
  key.push_back(-1);
}

void Recorder::describe(uint32_t role, uint32_t iteration, const CallOps& call,
                        const std::vector<uint32_t>& inputs, std::vector<int64_t>& key) const {
  if (!tracks(role)) return;
  const Tracked& t = tracked_[role];
  key.push_back(t.compute_end - call.begin);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((call.lanes >> lane & 1U) != 0) describe_chain(t, t.on_lane[lane].last, iteration, call.begin, key);
  }
  const auto ask = [&](uint32_t on, uint16_t lag) {
    if (lag <= iteration && t.lane_of(on) != Lane::compute)
      describe_chain(t, t.numbers.at(on, iteration - lag), iteration, call.begin, key);
  };
  for (const uint32_t i : inputs) ask(call.part->first + i, 0);
  for (const auto& [op, dep] : call.part->deps) {
    if (op >= call.before) ask(dep.op, dep.lag);
  }
}

void Recorder::begin_call(uint32_t role) {
  if (!tracks(role)) return;
  Tracked& t = tracked_[role];
  call_newest_ = t.newest;
  call_waits_ = waits_;
  call_sums_ = {};
  for (int w = 0; w < kWaits; ++w) call_sums_.exposed[w] = trace_.exposed[w].ps;
  for (int l = 0; l < kLanes; ++l) call_sums_.busy[l] = trace_.busy[l].ps;
  for (int m = 0; m < kMoves; ++m) call_sums_.moved[m] = trace_.moved[m].ps;
  call_sums_.final_end = std::exchange(t.final_end, {-1, 0});
  call_final_ = t.final_;
}

Recorder::CallEffect Recorder::end_call(uint32_t role, const CallOps& call) {
  const int64_t begin = call.begin;
  CallEffect out;
  if (!tracks(role)) return out;
  Tracked& t = tracked_[role];
  out.repeats = waits_ == call_waits_;
  for (int w = 0; w < kWaits; ++w) out.exposed[w] = trace_.exposed[w].ps - call_sums_.exposed[w];
  for (int l = 0; l < kLanes; ++l) out.busy[l] = trace_.busy[l].ps - call_sums_.busy[l];
  for (int m = 0; m < kMoves; ++m) out.moved[m] = trace_.moved[m].ps - call_sums_.moved[m];
  std::map<uint64_t, uint64_t> left;  // number of an execution: its place in out.left, from 1
  for (uint32_t i = 0; i < call.part->count - call.before; ++i) {
    const uint64_t n = call_newest_ + 1 + i;
    const Done* d = t.number(n);
    if (d == nullptr || d->end <= t.compute_end) continue;
    Done copy = *d;
    copy.ready -= begin;
    copy.start -= begin;
    copy.end -= begin;
    const Done* after = t.number(d->after);
    const bool under_way = after != nullptr && after->end > t.compute_end;
    out.repeats = out.repeats && (!under_way || left.contains(d->after));
    copy.after = under_way && left.contains(d->after) ? left[d->after] : 0;
    out.left.emplace_back(copy, i);
    left[n] = out.left.size();
  }
  for (int l = 0; l < kLanes; ++l) {
    if ((call.lanes >> l & 1U) == 0) continue;
    const auto at = left.find(t.on_lane[l].last);
    out.on_lane[l] = at == left.end() ? 0 : at->second;
  }
  out.final_end = {t.final_end.first - begin, t.final_end.second - call.first()};
  const auto [end, last] = call_sums_.final_end;
  if (end > t.final_end.first || (end == t.final_end.first && last <= t.final_end.second)) {
    t.final_end = call_sums_.final_end;
    t.final_ = call_final_;
  }
  return out;
}

void Recorder::repeat_call(uint32_t role, uint32_t iteration, const CallOps& call, int64_t compute_end,
                           const CallEffect& effect) {
  const int64_t begin = call.begin;
  if (!tracks(role)) return;
  Tracked& t = tracked_[role];
  for (int w = 0; w < kWaits; ++w) trace_.exposed[w].ps += effect.exposed[w];
  for (int l = 0; l < kLanes; ++l) trace_.busy[l].ps += effect.busy[l];
  for (int m = 0; m < kMoves; ++m) trace_.moved[m].ps += effect.moved[m];
  const uint64_t before = t.newest;
  const auto number = [&](uint64_t place) { return place == 0 ? 0 : before + place; };
  const std::pair<int64_t, uint32_t> last{effect.final_end.first + begin,
                                          effect.final_end.second + call.first()};
  const bool latest =
      last.first > t.final_end.first || (last.first == t.final_end.first && last.second < t.final_end.second);
  if (latest) {
    t.final_ = 0;  // unless it is under way still, it is accounted for
    t.final_end = last;
  }
  for (const auto& [relative, op] : effect.left) {
    Done d = relative;
    d.iteration = iteration;
    d.ready += begin;
    d.start += begin;
    d.end += begin;
    d.after = number(relative.after);
    t.add(d);
    t.numbers.at(call.first() + op, iteration) = t.newest;
    if (latest && op == effect.final_end.second) t.final_ = t.newest;
  }
  for (int l = 0; l < kLanes; ++l) {
    if ((call.lanes >> l & 1U) != 0) t.on_lane[l].last = number(effect.on_lane[l]);
  }
  t.on_lane[static_cast<int>(Lane::compute)].last = 0;
  t.compute_end = compute_end;
  t.forget_accounted(*plan_.program);
}

void Recorder::finish() {
  // The last of a run have not been applied when it ends.
  if (const int32_t delay = plan_.program->delay; delay > 0 && options_.iterations > delay)
    trace_.staleness.add(delay, replicas(*plan_.program) * (options_.iterations - delay));
  for (Tracked& t : tracked_) {
    if (t.role != nullptr) charge_chain(t, t.final_, t.final_end.first);
  }
  if (late_) {
    std::copy_n(late_->busy, kLanes, trace_.busy);
    std::copy_n(late_->exposed, kWaits, trace_.exposed);
    std::copy_n(late_->moved, kMoves, trace_.moved);
    trace_.awaited = late_->awaited;
  }
  for (int i = 0; i < kLanes; ++i) trace_.busy[i].ps -= early_.busy[i].ps;
  for (int i = 0; i < kWaits; ++i) trace_.exposed[i].ps -= early_.exposed[i].ps;
  for (int i = 0; i < kMoves; ++i) trace_.moved[i].ps -= early_.moved[i].ps;
  for (const auto& [worker, time] : early_.awaited) trace_.awaited[worker].ps -= time.ps;
  for (std::size_t t = 0; t < runs_.size(); ++t) {
    const Transfer& transfer = plan_.transfers[t];
    for (const std::vector<Use>* uses : {&transfer.uses, &transfer.resolved}) {
      for (const Use& use : *uses) {
        trace_.link_bytes.at(use.link) +=
            static_cast<double>(runs_[t]) * transfer.bytes * static_cast<double>(use.weight);
      }
    }
  }
  // When the first worker has no iterations left, those that have are alone.
  const int64_t all = last_.empty() ? 0 : *std::min_element(last_.begin(), last_.end());
  if (periods_) trace_.timed.worker_rate = periods_->rate(all, made_, last_);
  auto& ends = trace_.iteration_end;
  while (free_running_ && ends.size() > 1 && ends.back().ps > all) ends.pop_back();
  forget_early();
  for (const auto& [span, worker] : spans_) trace_.spans.push_back(span);
  std::sort(trace_.spans.begin(), trace_.spans.end());
}

}  // namespace tandem::sim

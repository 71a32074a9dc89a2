// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/recorder.h"

#include <algorithm>

namespace tandem::sim {

Recorder::Recorder(const Plan& plan, const EvaluateOptions& options, Trace& trace)
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
  trace_.iteration_end.assign(iterations, Time{});
  trace_.link_bytes.assign(plan.capacity.size(), 0);
  for (const Op& op : workers.ops) {
    for (const Dep& dep : op.deps) ring_ = std::max<uint32_t>(ring_, dep.lag + 8U);
  }
  numbers_.assign(workers.ops.size(), std::vector<uint64_t>(ring_));
}

void Recorder::keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, const OpInterval& e,
                    uint32_t count, uint32_t worker) {
  if (role == 0 && instance == 0) worker0(iteration, op, e);
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
  const auto workers = static_cast<int64_t>(made_.size());
  if (trace_.worker_iterations % workers == 0)
    trace_.iteration_end[static_cast<std::size_t>(trace_.worker_iterations / workers) - 1] = Time{end};
}

void Recorder::message(const Transfer& transfer) {
  for (const Use& use : transfer.uses) {
    trace_.link_bytes.at(use.link) += transfer.bytes * static_cast<double>(use.weight);
  }
}

/// The stretches of a recv that the message of `way_` ended.
void Recorder::add_way(Done& d, int64_t end) const {
  const auto& [way, reply] = way_;
  const auto add = [&](int64_t until, Wait wait, int move = kMovePush, uint32_t awaited = 0) {
    d.stretches.at(d.count++) = {until, wait, move, awaited};
  };
  if (!reply) {
    add(way.sent, Wait::waiting, kMovePeer, way.behind);
    return add(end, Wait::communication, kMovePeer);
  }
  add(way.arrived, Wait::communication);
  add(way.parked, Wait::server);
  add(way.late, Wait::waiting, kMovePush, way.behind);
  add(way.flown, Wait::communication);
  add(way.opened, Wait::server);
  add(way.replied, Wait::server);
  add(end, Wait::communication, kMovePull);
}

Recorder::Done Recorder::done(uint32_t iteration, const Op& op, const OpInterval& e) const {
  const Program& program = *plan_.program;
  Done d{iteration, e.ready, e.end, after_[static_cast<int>(op.lane)], {}, 0};
  const auto moves = [&](int move) { d.stretches[d.count++] = {e.end, Wait::communication, move, 0}; };
  switch (op.kind) {
    case OpKind::copy:
      if (program.copies[op.what].kind == CopyKind::input) {
        d.stretches[d.count++] = {e.end, Wait::input, 0, 0};
      } else {
        moves(kMoveCopy);
      }
      break;
    case OpKind::collective:
      d.stretches[d.count++] = {e.start, Wait::waiting, 0, e.last};
      moves(static_cast<int>(program.collectives[op.what].kind));
      break;
    case OpKind::send:
      moves(program.channels[op.what].address == Address::shards ? kMovePush : kMovePeer);
      break;
    case OpKind::recv:
      add_way(d, e.end);
      break;
    default:
      d.stretches[d.count++] = {e.end, Wait::idle, 0, 0};
  }
  return d;
}

void Recorder::charge(Stretch s, int64_t begin) {
  const Time time{s.end - begin};
  trace_.exposed[static_cast<int>(s.wait)] += time;
  if (s.wait == Wait::communication) trace_.moved[s.move] += time;
  if (s.wait == Wait::waiting) trace_.awaited[s.awaited] += time;
}

/// Charges the time that is not accounted for until `at`, at which the execution `last` ended, to what the
/// chain of executions did that led to it.
void Recorder::charge_chain(uint64_t last, int64_t at) {
  for (const Done* d = number(last); at > compute_end_ && d != nullptr; d = number(d->after)) {
    for (uint32_t i = d->count; i-- > 0;) {
      Stretch s = d->stretches[i];
      const int64_t begin = std::max({compute_end_, d->ready, i == 0 ? d->ready : d->stretches[i - 1].end});
      s.end = std::min(s.end, at);
      if (s.end <= begin) continue;
      charge(s, begin);
      at = begin;
    }
  }
  if (at > compute_end_) charge({at, Wait::idle, 0, 0}, compute_end_);
}

void Recorder::ready(uint32_t iteration, uint32_t index, int64_t at) {
  const auto& ops = plan_.program->roles[0].ops;
  const Op& op = ops[index];
  uint64_t& after = after_[static_cast<int>(op.lane)];
  after = 0;
  for (const Dep& dep : op.deps) {
    const Op& on = ops[dep.op];
    if (dep.lag > iteration || on.lane == Lane::compute || on.lane == op.lane) continue;
    const uint64_t n = numbers_[dep.op][(iteration - dep.lag) % ring_];
    if (after == 0 && ended(n, at) && number(n)->iteration == iteration - dep.lag) after = n;
  }
  const uint64_t before = on_lane_[static_cast<int>(op.lane)];
  if (after == 0 && op.lane != Lane::compute && ended(before, at)) after = before;
  if (op.lane != Lane::compute || at <= compute_end_) return;
  charge_chain(after, at);
  compute_end_ = at;
}

void Recorder::worker0(uint32_t iteration, uint32_t index, const OpInterval& e) {
  const Op& op = plan_.program->roles[0].ops[index];
  recent_.push_back(done(iteration, op, e));
  const uint64_t n = dropped_ + recent_.size();
  numbers_[index][iteration % ring_] = on_lane_[static_cast<int>(op.lane)] = n;
  const auto [end, last] = final_end_;
  if (e.end > end || (e.end == end && index < last)) {
    final_ = n;
    final_end_ = {e.end, index};
  }
  const bool works = op.kind == OpKind::compute || op.kind == OpKind::apply;
  if (op.lane != Lane::compute || works) trace_.busy[static_cast<int>(op.lane)].ps += e.end - e.start;
  if (op.lane != Lane::compute) return;
  if (!works) charge_chain(n, e.end);
  compute_end_ = e.end;
  for (; recent_.size() > 1 && recent_.front().end <= compute_end_; ++dropped_) recent_.pop_front();
}

void Recorder::finish() {
  charge_chain(final_, final_end_.first);
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
  auto& ends = trace_.iteration_end;
  while (free_running_ && ends.size() > 1 && ends.back().ps > all) ends.pop_back();
  forget_early();
  for (const auto& [span, worker] : spans_) trace_.spans.push_back(span);
  std::sort(trace_.spans.begin(), trace_.spans.end());
}

}  // namespace tandem::sim

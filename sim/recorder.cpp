#include "sim/recorder.h"

#include <algorithm>

namespace tandem {

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
    for (const Dep& dep : op.deps) ring_ = std::max<uint32_t>(ring_, dep.lag + 1U);
  }
  ends_.assign(workers.ops.size(), std::vector<Ended>(ring_));
}

void Recorder::keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, int64_t start,
                    int64_t end, uint32_t count, uint32_t worker) {
  if (role == 0 && instance == 0) worker0(iteration, op, start, end);
  if (!plan_.measured(role)) return;  // its iterations are at another pace
  if (iteration + static_cast<uint32_t>(options_.kept_iterations) < made_[worker]) return;
  const auto wanted = static_cast<uint32_t>(std::max(options_.kept_instances, 0));
  for (uint32_t i = instance; i < std::min(instance + count, wanted); ++i) {
    spans_.push_back({{role, i, iteration, op, Time{start}, Time{end}}, worker});
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

Recorder::Wait Recorder::wait_of(const Op& op) const {
  switch (op.kind) {
    case OpKind::copy:
      return plan_.program->copies[op.what].kind == CopyKind::input ? Wait::input : Wait::comm;
    case OpKind::collective:
    case OpKind::send:
    case OpKind::recv:
      return Wait::comm;
    default:
      return Wait::other;
  }
}

void Recorder::charge(Wait wait, int64_t time) {
  (wait == Wait::comm    ? trace_.exposed_comm
   : wait == Wait::input ? trace_.exposed_input
                         : trace_.idle)
      .ps += time;
}

void Recorder::compute_starts(uint32_t iteration, uint32_t index, int64_t start) {
  if (start <= compute_end_) return;
  const auto& ops = plan_.program->roles[0].ops;
  Wait wait = Wait::other;
  for (const Dep& dep : ops[index].deps) {
    if (dep.lag > iteration || ops[dep.op].lane == Lane::compute) continue;
    const Ended& ended = ends_[dep.op][(iteration - dep.lag) % ring_];
    if (ended.iteration != iteration - dep.lag || ended.at != start) continue;
    wait = wait_of(ops[dep.op]);
    break;
  }
  charge(wait, start - compute_end_);
}

void Recorder::worker0(uint32_t iteration, uint32_t index, int64_t start, int64_t end) {
  const Op& op = plan_.program->roles[0].ops[index];
  ends_[index][iteration % ring_] = {iteration, end};
  if (end > last_end_ || (end == last_end_ && index < last_op_)) {
    last_end_ = end;
    last_op_ = index;
  }
  const bool works = op.kind == OpKind::compute || op.kind == OpKind::apply;
  if (op.lane != Lane::compute || works) trace_.busy[static_cast<int>(op.lane)].ps += end - start;
  if (op.lane != Lane::compute) return;
  if (!works) charge(wait_of(op), end - start);
  compute_end_ = end;
}

void Recorder::finish() {
  if (last_end_ > compute_end_)
    charge(wait_of(plan_.program->roles[0].ops[last_op_]), last_end_ - compute_end_);
  for (std::size_t t = 0; t < runs_.size(); ++t) {
    const Transfer& transfer = plan_.transfers[t];
    for (const std::vector<Use>* uses : {&transfer.uses, &transfer.settled}) {
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

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "exec/run/lanes.h"

#include <algorithm>
#include <map>

#include "exec/layout/memory.h"
#include "schemes/program/lane_order.h"

namespace tandem::exec {

Lanes::Lanes(Run& run, uint32_t instance)
    : role_(run.plan().role(instance)), before_(run.plan().first_iteration()) {
  const RunPlan& plan = run.plan();
  for (LaneState& lane : lanes_) run.abort().watch(&lane.passed);
  add_ops(run);
  add_dependencies();
  if (plan.stages().split()) {
    share_slots(plan.stages().slots(instance));
    keep_gradients(plan.program(), plan.stages().lowered(instance));
  } else {
    load_ahead(plan);
  }
  one_after_another_ =
      schemes::one_after_another(plan.program(), role_) && run.coordinator().cycle() == 0 &&
      plan.program().comm_cores == 0 &&
      std::none_of(lanes_.begin(), lanes_.end(), [](const LaneState& l) { return l.ahead > 0; });
  for (LaneState& lane : lanes_)
    lane.executed.reserve(lane.ops.size() * static_cast<std::size_t>(plan.expected()));
}

void Lanes::add_ops(const Run& run) {
  const RunPlan& plan = run.plan();
  for (uint32_t i = 0; i < role_.ops.size(); ++i) {
    const Op& op = role_.ops[i];
    LaneState& lane = (*this)[op.lane];
    position_.push_back(static_cast<uint32_t>(lane.ops.size()));
    LaneOp& bound = lane.ops.emplace_back();
    bound.op = i;
    bound.turns = turns(op);
    const bool over_links = run.has_transport() && op.kind == OpKind::collective &&
                            op.lane != Lane::compute && !run.communicators().library_made(op.what);
    lane.pushes = lane.pushes || (op.kind == OpKind::send && run.store() != nullptr &&
                                  plan.program().channels[op.what].to_role == plan.program().stores[0].role);
    const bool deals = plan.carries_tokens(op);
    const bool on_host = (op.kind == OpKind::compute && op.lane == Lane::host) || op.lane == Lane::read ||
                         op.lane == Lane::decode;
    lane.exchanges = lane.exchanges || on_host || op.kind == OpKind::send || op.kind == OpKind::recv ||
                     over_links || deals;
  }
}

void Lanes::add_dependencies() {
  for (uint32_t i = 0; i < role_.ops.size(); ++i) {
    for (const Dep& d : role_.ops[i].deps) depend(i, d.op, d.lag);
  }
}

/// From and until count through all runs of a training.
Turns Lanes::turns(const Op& op) const {
  return {op.every, op.from - before_, op.until == Op::kEver ? INT64_MAX : op.until - before_};
}

void Lanes::depend(uint32_t op, uint32_t on, uint16_t lag) {
  const Op& other = role_.ops[on];
  const Lane lane = role_.ops[op].lane;
  if (other.lane == lane) return;  // lanes are in order
  const auto lane_ops = static_cast<uint32_t>((*this)[other.lane].ops.size());
  (*this)[lane].ops[position_[op]].deps.push_back(
      {other.lane, on, position_[on], lane_ops, lag, turns(other)});
}

/// A micro-batch may use the activations of the previous user of its slot, in this iteration or the last,
/// when all lanes are done with them.
void Lanes::share_slots(const Slots& slots) {
  using Ends = std::array<int64_t, kLanes>;  // op of each lane, or -1
  Ends none;
  none.fill(-1);
  std::vector<Ends> first(slots.of_micro.size(), none), last = first;
  std::vector<std::vector<int32_t>> users(static_cast<std::size_t>(slots.count));  // [slot]: micro-batches
  for (uint32_t i = 0; i < role_.ops.size(); ++i) {
    const Op& op = role_.ops[i];
    if (!of_micro_batch(op)) continue;
    const auto lane = static_cast<std::size_t>(op.lane);
    if (first[op.micro][lane] < 0) first[op.micro][lane] = i;
    last[op.micro][lane] = i;
    auto& of_slot = users[static_cast<std::size_t>(slots.of_micro[op.micro])];
    if (std::find(of_slot.begin(), of_slot.end(), op.micro) == of_slot.end()) of_slot.push_back(op.micro);
  }
  for (const auto& of_slot : users) {
    for (std::size_t k = 0; k < of_slot.size(); ++k) {
      const uint16_t lag = k == 0 ? 1 : 0;
      const Ends& before = last[static_cast<std::size_t>(of_slot[k == 0 ? of_slot.size() - 1 : k - 1])];
      for (const int64_t op : first[static_cast<std::size_t>(of_slot[k])]) {
        for (const int64_t end : before) {
          if (op >= 0 && end >= 0) depend(static_cast<uint32_t>(op), static_cast<uint32_t>(end), lag);
        }
      }
    }
  }
}

/// A backward pass writes gradients that an earlier reduction may still be using.
void Lanes::keep_gradients(const Program& program, const ExecutionGraph& lowered) {
  const auto makes = [&](const Op& op, const Bucket& bucket) {
    const Task& task = program.tasks[op.what];
    if (op.kind != OpKind::compute || op.lane != Lane::compute || task.pass != Pass::backward_weights)
      return false;
    return std::any_of(lowered.learned().begin(), lowered.learned().end(), [&](const LearnedTensor& l) {
      const Tensor& t = lowered.tensors()[l.parameter];
      return l.layer >= task.layer && l.layer < task.layer + task.layers &&
             t.offset < bucket.first + bucket.elements && bucket.first < t.offset + t.elements;
    });
  };
  std::map<uint32_t, uint32_t> reduced;  // key -> the previous reduction, of this iteration or the last
  for (const bool again : {false, true}) {
    for (uint32_t i = 0; i < role_.ops.size(); ++i) {
      const Op& op = role_.ops[i];
      if (op.kind == OpKind::collective && op.payload == Payload::gradients) reduced[op.key] = i;
      if (!again) continue;
      for (const auto& [key, reduction] : reduced) {
        if (makes(op, program.buckets[key])) depend(i, reduction, reduction < i ? 0 : 1);
      }
    }
  }
}

/// Lanes that read and decode, and a copy lane that only loads input.
void Lanes::load_ahead(const RunPlan& plan) {
  const Program& program = plan.program();
  for (const Lane lane : {Lane::read, Lane::decode})
    (*this)[lane].ahead = kInputBatches - 1 + static_cast<int32_t>(plan.execution().job.loading.prefetch);
  LaneState& copy = (*this)[Lane::copy];
  copy.ahead = copy.ops.empty() ? 0 : kInputBatches - 1;
  for (const LaneOp& bound : copy.ops) {
    const Op& op = role_.ops[bound.op];
    if (op.kind != OpKind::copy || program.copies[op.what].kind != CopyKind::input) copy.ahead = 0;
  }
}

}  // namespace tandem::exec

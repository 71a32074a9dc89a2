// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/pass_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "exec/layout/shares.h"

namespace tandem::exec {

namespace {

/// Merges adjacent ranges.
void join_ranges(std::vector<FlatRange>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<FlatRange> out;
  for (const FlatRange& r : ranges) {
    if (!out.empty() && out.back().second == r.first)
      out.back().second = r.second;
    else
      out.push_back(r);
  }
  ranges = std::move(out);
}

bool is_pass(const Op& op) { return op.kind == OpKind::compute && op.payload == Payload::none; }

bool makes_weights_alone(const Task& task) { return task.parts && task.pass == Pass::backward_weights; }

}  // namespace

std::vector<uint32_t> part_cuts(const std::vector<ExchangedTensors>& exchanges) {
  std::set<uint32_t> cuts;
  for (const ExchangedTensors& x : exchanges) cuts.insert({x.before, x.awaited});
  cuts.erase(0);
  return {cuts.begin(), cuts.end()};
}

/// Progress of the passes, by (layer, micro-batch).
struct PassPlan::Walk {
  using At = std::pair<uint32_t, int32_t>;
  std::map<At, uint32_t> exchanges, forward, backward;
  /// Layers whose parameters' gradients are a separate task.
  std::set<At> weights_alone;

  static uint32_t of(const std::map<At, uint32_t>& counts, uint32_t layer, int32_t micro) {
    const auto at = counts.find({layer, micro});
    return at == counts.end() ? 0 : at->second;
  }
  void pass(const Task& task, int32_t micro) {
    const bool forward_pass = task.pass == Pass::forward;
    const bool data = !task.again && (task.pass == Pass::backward_data ||
                                      (task.pass == Pass::backward_weights && !task.parts));
    for (uint32_t l = task.layer; l < task.layer + task.layers; ++l) {
      if (forward_pass) ++forward[{l, micro}];
      if (data) ++backward[{l, micro}];
    }
  }
};

PassPlan::PassPlan(const Program& program, const Stages& stages, uint32_t worker) {
  const OpList& ops = program.roles[stages.place(worker).role].ops;
  const ExecutionGraph& lowered = stages.lowered(worker);
  find_flat_ranges(lowered);
  const auto count = ops.size();
  work_.resize(count);
  before_.resize(count);
  alike_.resize(count);
  judged_later_.resize(count);
  Walk walk;
  std::map<int32_t, uint32_t> judges;  // [micro-batch]: the last op that computes the model's last layer
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_pass(ops[i])) continue;
    const Task& task = program.tasks[ops[i].what];
    for (uint32_t l = task.layer; l < task.layer + task.layers && makes_weights_alone(task); ++l)
      walk.weights_alone.insert({l, ops[i].micro});
    if (task.pass == Pass::forward && task.layers > 0 && task.layer + task.layers == layers())
      judges[ops[i].micro] = i;
  }
  std::map<std::tuple<uint32_t, Payload, uint32_t, int32_t>, uint32_t> alike;
  const auto held = held_gradients(program, stages, worker);
  for (uint32_t i = 0; i < count; ++i) {
    const Op& op = ops[i];
    const auto judge = judges.find(op.micro);
    judged_later_[i] = judge != judges.end() && judge->second > i;
    if (op.kind == OpKind::collective) {
      const bool form = op.payload == Payload::compressed;
      alike_[i] = alike[{form ? 0 : op.what, op.payload, op.key, form ? 0 : op.micro}]++;
      if (op.payload == Payload::exchanged) before_[i] = walk.exchanges[{op.key, op.micro}]++;
    }
    if (!is_pass(op)) continue;
    work_[i] = work_of(walk, program, lowered, op);
    work_[i].ranges = held.passes.cut(work_[i].ranges);
    walk.pass(program.tasks[op.what], op.micro);
  }
  find_positions(ops);
}

void PassPlan::find_flat_ranges(const ExecutionGraph& lowered) {
  flat_.resize(lowered.graph().layers().size());
  for (const LearnedTensor& l : lowered.learned()) {
    const Tensor& t = lowered.tensors()[l.parameter];
    if (t.elements > 0) flat_[l.layer].emplace_back(t.offset, t.offset + t.elements);
  }
  for (auto& ranges : flat_) join_ranges(ranges);
}

/// A layer's parameters' gradients belong to the separate task for them, if there is one, else to the last
/// task of its backward pass. A pass in the middle of which devices exchange something is cut.
PassWork PassPlan::work_of(const Walk& walk, const Program& program, const ExecutionGraph& lowered,
                           const Op& op) {
  const Task& task = program.tasks[op.what];
  PassWork w;
  w.first = task.layer;
  w.count = task.layers;
  w.forward = task.pass == Pass::forward;
  w.recompute = task.again;
  w.data = !task.again && (!task.parts || task.pass == Pass::backward_data);
  const bool makes = !w.forward && !w.recompute && !(task.parts && task.pass == Pass::backward_data);
  for (uint32_t layer = w.first; layer < w.first + w.count; ++layer) {
    const SliceTensors& s = lowered.slice(layer);
    const bool exchanges = w.forward ? !s.forward.empty() : w.data && !s.backward.empty();
    const auto& counts = w.forward ? walk.forward : walk.backward;
    w.parts.push_back(exchanges ? Walk::of(counts, layer, op.micro) : 0);
    const bool last = !w.data || w.parts.back() == part_cuts(s.backward).size();
    const bool elsewhere = !task.parts && walk.weights_alone.count({layer, op.micro}) > 0;
    w.weights.push_back(makes && last && !elsewhere);
    if (w.weights.back()) w.ranges.insert(w.ranges.end(), flat_[layer].begin(), flat_[layer].end());
  }
  join_ranges(w.ranges);
  return w;
}

const ExchangedTensors& PassPlan::exchanged(const ExecutionGraph& lowered, uint32_t key, uint32_t op) const {
  const SliceTensors& s = lowered.slice(key);
  const uint32_t at = before_[op];
  return at < s.forward.size() ? s.forward[at] : s.backward.at(at - s.forward.size());
}

/// By the order of its micro-batches in the program.
void PassPlan::find_positions(const OpList& ops) {
  positions_.resize(ops.size());
  std::map<std::pair<bool, uint32_t>, uint32_t> latest;  // (a reduction?, first layer or key) -> op
  const auto meets = [&](uint32_t i, bool reduces, uint32_t of) {
    const auto [at, fresh] = latest.try_emplace({reduces, of}, i);
    if (fresh) return;
    positions_[at->second].last = false;
    positions_[i].first = false;
    at->second = i;
  };
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::collective && ops[i].payload == Payload::gradients) meets(i, true, ops[i].key);
    if (!is_pass(ops[i])) continue;
    const PassWork& w = work_[i];
    for (uint32_t layer = w.first; layer < w.first + w.count; ++layer) {
      if (w.weights[layer - w.first] && !flat_[layer].empty()) meets(i, false, layer);
    }
  }
}

}  // namespace tandem::exec

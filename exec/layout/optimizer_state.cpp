// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/optimizer_state.h"

#include <algorithm>

namespace tandem::exec {

OptimizerState::OptimizerState(const Optimizer& rule, const ExecutionGraph& lowered) {
  for (const LearnedTensor& l : lowered.learned()) {
    const Parameter& p = lowered.graph().layers()[l.layer].parameters[l.index];
    tensors_.push_back({lowered.tensors()[l.parameter].offset, p.elements, p.rows, rule.flat() ? 0 : words_});
    words_ += rule.state_words(p.elements, p.rows);
  }
}

namespace {

bool meets(const UpdatedTensor& t, const Slice& part) {
  return t.first < part.first + part.elements && part.first < t.first + t.elements;
}
bool within(const UpdatedTensor& t, const Slice& part) {
  return t.first >= part.first && t.first + t.elements <= part.first + part.elements;
}

/// Ops that together make a step's updates: those that run in the same iterations.
bool together(const Op& a, const Op& b) {
  return a.every == b.every && a.from == b.from && a.until == b.until;
}

bool is_update(const Program& program, const Op& op) {
  return op.kind == OpKind::compute && (op.payload == Payload::parameters || op.payload == Payload::shard) &&
         program.tasks[op.what].averaging.rule == Averaging::Rule::none;
}

}  // namespace

std::vector<UpdatedTensor> OptimizerState::in(const Slice& part) const {
  std::vector<UpdatedTensor> out;
  for (const UpdatedTensor& t : tensors_) {
    if (!meets(t, part)) continue;
    out.push_back(t);
    out.back().first -= part.first;
  }
  return out;
}

bool OptimizerState::cut_by(const Slice& part) const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [&](const UpdatedTensor& t) { return meets(t, part) && !within(t, part); });
}

namespace {

/// The model's tensor that this slice's tensor is all of; null if it is only a part.
const UpdatedTensor* model_tensor(const ParameterMap& pieces, const UpdatedTensor& own,
                                  const OptimizerState& whole, bool* copy = nullptr) {
  const auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const MappedRange& p) {
    return p.own <= own.first && own.first + own.elements <= p.own + p.elements;
  });
  if (piece == pieces.end()) return nullptr;
  if (copy != nullptr) *copy = piece->copy;
  const auto& all = whole.tensors();
  const auto same = std::find_if(all.begin(), all.end(), [&](const UpdatedTensor& t) {
    return t.first == piece->whole + own.first - piece->own && t.elements == own.elements;
  });
  return same == all.end() ? nullptr : &*same;
}

int64_t words_of(const OptimizerState& of, std::size_t tensor) {
  const auto& all = of.tensors();
  return (tensor + 1 < all.size() ? all[tensor + 1].state : of.words()) - all[tensor].state;
}

}  // namespace

bool whole_here(const ParameterMap& pieces, const UpdatedTensor& own, const OptimizerState& whole) {
  return model_tensor(pieces, own, whole) != nullptr;
}

ParameterMap state_map(const OptimizerState& whole, const OptimizerState& own, const ParameterMap& pieces) {
  ParameterMap out;
  for (std::size_t t = 0; t < own.tensors().size(); ++t) {
    bool copy = false;
    const UpdatedTensor* theirs = model_tensor(pieces, own.tensors()[t], whole, &copy);
    if (theirs != nullptr) out.push_back({own.tensors()[t].state, theirs->state, words_of(own, t), copy});
  }
  return out;
}

Slice whole_tensors(const Program& program, const Role& role, const OptimizerState& state, uint32_t update,
                    const Slice& part) {
  const auto& ops = role.ops;
  const Op& own = ops[update];
  const auto last = [&](const UpdatedTensor& t) {
    return std::none_of(ops.begin() + update + 1, ops.end(), [&](const Op& later) {
      if (!is_update(program, later) || !together(later, own) || later.key == own.key) return false;
      const Bucket& b = program.buckets[later.key];
      return meets(t, {b.first, b.elements});
    });
  };
  int64_t begin = INT64_MAX, end = 0;
  for (const UpdatedTensor& t : state.tensors()) {
    if (!meets(t, part) || !last(t)) continue;
    begin = std::min(begin, t.first);
    end = std::max(end, t.first + t.elements);
  }
  return end == 0 ? Slice{part.first, 0} : Slice{begin, end - begin};
}

bool cuts_exchanged(const Program& program, uint32_t role, const OptimizerState& state) {
  const bool cuts = std::any_of(program.buckets.begin(), program.buckets.end(), [&](const Bucket& b) {
    return b.role == role && state.cut_by({b.first, b.elements});
  });
  if (!cuts) return false;
  const auto& ops = program.roles[role].ops;
  return program.delay > 0 || !program.stores.empty() ||
         std::any_of(ops.begin(), ops.end(), [&](const Op& op) {
           if (op.lane == Lane::host || op.lane == Lane::offload || op.lane == Lane::reload) return true;
           return op.kind == OpKind::compute
                      ? program.tasks[op.what].averaging.rule != Averaging::Rule::none
                      : op.payload == Payload::parameters || op.payload == Payload::state ||
                            op.payload == Payload::mean;
         });
}

}  // namespace tandem::exec

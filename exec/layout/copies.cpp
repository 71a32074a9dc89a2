// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/copies.h"

#include <algorithm>

#include "exec/layout/shares.h"

namespace tandem::exec {

namespace {

struct Wanted {
  int64_t elements = 0;
  bool half = false;
  CopyWish fp8 = {};
};

/// Parameters that some call converts to other numbers, by their start in the flat vector.
std::map<int64_t, Wanted> wanted(const Execution& e, const ExecutionGraph& lowered) {
  std::map<int64_t, Wanted> out;
  const auto add = [&](const std::vector<Call>& calls) {
    for (const Call& c : calls) {
      const CopyWish wish = e.backend->copies(c, e.job.precision);
      for (std::size_t k = 0; k < c.operands.size(); ++k) {
        const Tensor& t = lowered.tensors()[c.operands[k]];
        if (((wish.half | wish.fp8) >> k & 1U) == 0 || t.kind != TensorKind::parameter) continue;
        Wanted& w = out[t.offset];
        w.elements = t.elements;
        w.half = w.half || (wish.half >> k & 1U) != 0;
        if ((wish.fp8 >> k & 1U) != 0) w.fp8 = wish;
      }
    }
  };
  for (uint32_t layer = 0; layer < lowered.graph().layers().size(); ++layer) {
    add(lowered.forward(layer));
    add(lowered.backward(layer));
    add(lowered.recompute(layer));
  }
  return out;
}

/// Whether only updates on the device write parameters, each once per step.
bool only_updates(const Execution& e, const Program& program, const Role& role) {
  const bool elsewhere = !program.stores.empty() || program.delay > 0 || program.sharding.state > 1 ||
                         e.job.offload.optimizer || averaging_vectors(program) > 0;
  return !elsewhere && std::none_of(role.ops.begin(), role.ops.end(), [&](const Op& op) {
    const bool moves =
        op.kind == OpKind::collective &&
        (op.payload == Payload::parameters || op.payload == Payload::state || op.payload == Payload::mean);
    return moves || op.payload == Payload::shard ||
           (op.kind == OpKind::compute && program.tasks[op.what].averaging.rule != Averaging::Rule::none);
  });
}

/// Whether the parameter is within one bucket that one op updates.
bool one_update(const Program& program, const Role& role, int64_t first, int64_t elements, uint32_t key) {
  const Bucket& b = program.buckets[key];
  const auto updates = std::count_if(role.ops.begin(), role.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::compute && op.payload == Payload::parameters && op.key == key;
  });
  return b.first <= first && first + elements <= b.first + b.elements && updates == 1;
}

}  // namespace

Copies::Copies(const Execution& e, const Program& program, const Stages& stages, uint32_t device) {
  if (e.backend->copies == nullptr || e.job.offload.parameters) return;
  const uint32_t at = stages.place(device).role;
  const Role& role = program.roles[at];
  const Held held = held_parameters(program, stages, device, false);
  const GatherBuffers& rooms = stages.gather_buffers(device).parameters;
  std::map<int64_t, uint32_t> keys;  // by the start of the bucket
  for (uint32_t key = 0; key < program.buckets.size(); ++key) {
    if (program.buckets[key].role == at && program.buckets[key].elements > 0)
      keys.emplace(program.buckets[key].first, key);
  }
  const bool updates = only_updates(e, program, role);
  for (const auto& [first, w] : wanted(e, stages.lowered(device))) {
    if (w.elements == 0) continue;
    auto bucket = keys.upper_bound(first);
    if (bucket != keys.begin()) --bucket;
    const bool fp8 = w.fp8.fp8 != 0 && updates && bucket != keys.end() &&
                     one_update(program, role, first, w.elements, bucket->second);
    bool brought = false;
    for (; bucket != keys.end() && bucket->first < first + w.elements; ++bucket)
      brought = brought || rooms.at[bucket->second] != GatherBuffers::kNone;
    if (brought) continue;
    const int64_t place = held.passes.of(first, w.elements);
    if (w.half) {
      piece_at_[first] = pieces_.size();
      pieces_.push_back({place, w.elements, words_});
      words_ += (w.elements + 127) / 128 * 64;  // to 256 bytes, at which libraries read fastest
    }
    if (fp8) {
      matrix_at_[first] = matrices_.size();
      matrices_.push_back({place, w.fp8.rows, w.fp8.columns, words_});
      words_ += matrices_.back().words();
    }
  }
}

const CopyPiece* Copies::piece(int64_t first) const {
  const auto at = piece_at_.find(first);
  return at == piece_at_.end() ? nullptr : &pieces_[at->second];
}
const CopiedMatrix* Copies::matrix(int64_t first) const {
  const auto at = matrix_at_.find(first);
  return at == matrix_at_.end() ? nullptr : &matrices_[at->second];
}

Copies::Part Copies::in(const Slice& part) const {
  Part out;
  const auto find = [&](const auto& places, const auto& elements_of, int64_t& begin, int64_t& count) {
    for (const auto& [first, k] : places) {
      if (first >= part.first + part.elements) break;
      if (first + elements_of(k) <= part.first) continue;
      if (count++ == 0) begin = static_cast<int64_t>(k);
    }
  };
  find(
      piece_at_, [&](std::size_t k) { return pieces_[k].elements; }, out.piece, out.pieces);
  find(
      matrix_at_, [&](std::size_t k) { return matrices_[k].rows * matrices_[k].columns; }, out.matrix,
      out.matrices);
  return out;
}

}  // namespace tandem::exec

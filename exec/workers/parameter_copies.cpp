// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/parameter_copies.h"

#include <cstring>

namespace tandem::exec {

Needs ParameterCopies::needs(const Asked& a) {
  return {{Copies(a.execution, a.program, a.stages, a.worker).all_words(), &MemoryUse::parameters}};
}

/// The lists follow the copies.
ParameterCopies::ParameterCopies(Bench& bench, const ModelMemory& memory)
    : bench_(bench),
      memory_(memory),
      copies_of_(bench.plan.execution(), bench.plan.program(), bench.plan.stages(), bench.instance) {
  copies_ = bench.allocate(needs(bench.asked())[0]);
  if (copies_of_.empty()) return;
  const auto upload = [&](const auto& list, int64_t at, int64_t count) {
    std::vector<float> words(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(words.data(), list.data(), words.size() * sizeof(float));
    bench_.device->upload(copies_ + at, words.data(), count);
  };
  const int64_t pieces = copies_of_.words(), matrices = pieces + copies_of_.piece_words();
  upload(copies_of_.pieces(), pieces, copies_of_.piece_words());
  upload(copies_of_.matrices(), matrices, copies_of_.matrix_words());
  renew(all(), Lane::compute);
  bench_.device->synchronize(Lane::compute);
}

/// For a part of the flat vector.
CopiedRange ParameterCopies::copied(const Slice& part) const {
  const Copies::Part in = copies_of_.in(part);
  CopiedRange out;
  if (in.pieces + in.matrices == 0) return out;
  out.first = memory_.held_parameters().kept.of(part.first, part.elements);
  out.elements = part.elements;
  out.copies = copies_;
  out.pieces = copies_ + copies_of_.words() + in.piece * int64_t{sizeof(CopyPiece) / sizeof(float)};
  out.matrices = copies_ + copies_of_.words() + copies_of_.piece_words() +
                 in.matrix * int64_t{sizeof(CopiedMatrix) / sizeof(float)};
  out.piece_count = in.pieces;
  out.matrix_count = in.matrices;
  return out;
}

/// For all that the worker holds permanently.
CopiedRange ParameterCopies::all() const {
  float* const lists = copies_ + copies_of_.words();
  return {0,
          memory_.held_parameters().kept.elements(),
          copies_,
          lists,
          lists + copies_of_.piece_words(),
          static_cast<int64_t>(copies_of_.pieces().size()),
          static_cast<int64_t>(copies_of_.matrices().size())};
}

/// By a collective.
CopiedRange ParameterCopies::written_by(const Op& op) const {
  if (op.payload == Payload::state) return all();
  if (op.payload != Payload::parameters) return {};
  const Bucket& b = bench_.plan.program().buckets[op.key];
  return copied({b.first, b.elements});
}

/// After an op that has written the part's parameters.
void ParameterCopies::renew(const CopiedRange& range, Lane lane) const {
  if (!range.empty()) bench_.device->renew(range, memory_.parameters(), lane);
}

/// Appends the copies of the call's parameters to its operands; returns the call that finds them there.
Call ParameterCopies::with_copies(const Call& lowered, std::vector<float*>& behind) const {
  Call call = lowered;
  if (copies_of_.empty()) return call;
  const CopyWish wish = bench_.plan.execution().backend->copies(call, bench_.plan.execution().job.precision);
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const Tensor& t = bench_.plan.stages().lowered(bench_.instance).tensors()[call.operands[k]];
    if (t.kind != TensorKind::parameter) continue;
    const CopyPiece* piece = (wish.half >> k & 1U) != 0 ? copies_of_.piece(t.offset) : nullptr;
    const CopiedMatrix* matrix = (wish.fp8 >> k & 1U) != 0 ? copies_of_.matrix(t.offset) : nullptr;
    if (piece == nullptr && matrix == nullptr) continue;
    call.copied |= 1U << k;
    behind.push_back(copies_ + (piece != nullptr ? piece->place : matrix->place));
  }
  return call;
}

/// The update refreshes the part's copies itself.
void ParameterCopies::renew_by(Call& update, std::vector<float*>& operands, const Slice& part) const {
  const CopiedRange range = copied(part);
  if (range.empty()) return;
  update.shape.insert(update.shape.end(), {range.piece_count, range.matrix_count, range.first});
  update.half_operands.assign(operands.size(), 0);
  update.half_operands.push_back(part.elements);
  operands.insert(operands.end(), {range.copies, range.pieces, range.matrices});
}

}  // namespace tandem::exec

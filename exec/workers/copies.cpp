// SPDX-License-Identifier: Apache-2.0
// Copies of parameters that products read: made when training begins, and anew by every op that writes
// parameters (copies.h).
#include <cstring>

#include "exec/workers/worker.h"

namespace tandem::exec {

/// The lists lie behind the copies.
void Worker::allocate_copies() {
  copies_of_ = Copies(run_.execution(), run_.program(), run_.stages(), instance_);
  copies_ = device_->allocate(copies_of_.all_words());
  if (copies_of_.empty()) return;
  const auto upload = [&](const auto& list, int64_t at, int64_t count) {
    std::vector<float> words(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(words.data(), list.data(), words.size() * sizeof(float));
    device_->upload(copies_ + at, words.data(), count);
  };
  const int64_t pieces = copies_of_.words(), matrices = pieces + copies_of_.piece_words();
  upload(copies_of_.pieces(), pieces, copies_of_.piece_words());
  upload(copies_of_.matrices(), matrices, copies_of_.matrix_words());
}

/// Of a part of the flat vector.
CopiedRange Worker::copied(const Slice& part) const {
  const Copies::Part in = copies_of_.in(part);
  CopiedRange out;
  if (in.pieces + in.matrices == 0) return out;
  out.first = held_parameters_.kept.of(part.first, part.elements);
  out.elements = part.elements;
  out.copies = copies_;
  out.pieces = copies_ + copies_of_.words() + in.piece * int64_t{sizeof(CopyPiece) / sizeof(float)};
  out.matrices = copies_ + copies_of_.words() + copies_of_.piece_words() +
                 in.matrix * int64_t{sizeof(CopiedMatrix) / sizeof(float)};
  out.piece_count = in.pieces;
  out.matrix_count = in.matrices;
  return out;
}

/// Of all that the worker holds for good.
CopiedRange Worker::all_copied() const {
  float* const lists = copies_ + copies_of_.words();
  return {0,
          held_parameters_.kept.elements(),
          copies_,
          lists,
          lists + copies_of_.piece_words(),
          static_cast<int64_t>(copies_of_.pieces().size()),
          static_cast<int64_t>(copies_of_.matrices().size())};
}

/// By a collective.
CopiedRange Worker::written_by(const Op& op) const {
  if (op.payload == Payload::state) return all_copied();
  if (op.payload != Payload::parameters) return {};
  const Bucket& b = run_.program().buckets[op.key];
  return copied({b.first, b.elements});
}

/// Behind an op that has written the part of its parameters.
void Worker::renew(const CopiedRange& range, Lane lane) {
  if (!range.empty()) device_->renew(range, parameters_, lane);
}

/// The copies of the call's parameters, behind its operands, and the call that finds them there.
Call Worker::with_copies(const Call& lowered, std::vector<float*>& behind) const {
  Call call = lowered;
  if (copies_of_.empty()) return call;
  const CopyWish wish = run_.execution().backend->copies(call, run_.execution().job.precision);
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const Tensor& t = graph().tensors()[call.operands[k]];
    if (t.kind != TensorKind::parameter) continue;
    const CopyPiece* piece = (wish.half >> k & 1U) != 0 ? copies_of_.piece(t.offset) : nullptr;
    const CopiedMatrix* matrix = (wish.fp8 >> k & 1U) != 0 ? copies_of_.matrix(t.offset) : nullptr;
    if (piece == nullptr && matrix == nullptr) continue;
    call.copied |= 1U << k;
    behind.push_back(copies_ + (piece != nullptr ? piece->place : matrix->place));
  }
  return call;
}

/// The update makes what the part has of copies anew.
void Worker::renew_by(Call& update, std::vector<float*>& operands, const Slice& part) const {
  const CopiedRange range = copied(part);
  if (range.empty()) return;
  update.shape.insert(update.shape.end(), {range.piece_count, range.matrix_count, range.first});
  update.half_operands.assign(operands.size(), 0);
  update.half_operands.push_back(part.elements);
  operands.insert(operands.end(), {range.copies, range.pieces, range.matrices});
}

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
// Copies of parameters that products read: made when training begins, and anew by every op that writes
// parameters (copies.h).
#include <cstring>

#include "exec/run/worker.h"

namespace tandem::exec {

/// The list of pieces lies behind the copies.
void Worker::allocate_copies() {
  copies_of_ = Copies(run_.execution(), run_.program(), run_.stages(), instance_);
  copies_ = device_->allocate(copies_of_.all_words());
  const auto& pieces = copies_of_.pieces();
  if (pieces.empty()) return;
  std::vector<float> words(static_cast<std::size_t>(copies_of_.all_words() - copies_of_.words()));
  std::memcpy(words.data(), pieces.data(), pieces.size() * sizeof(CopyPiece));
  device_->upload(copies_ + copies_of_.words(), words.data(), static_cast<int64_t>(words.size()));
}

/// Of a part of the flat vector.
CopiedRange Worker::copied(const Slice& part) const {
  const Slice pieces = copies_of_.in(part);
  if (pieces.elements == 0) return {};
  constexpr int64_t each = sizeof(CopyPiece) / sizeof(float);
  return {held_parameters_.kept.of(part.first, part.elements), part.elements, copies_,
          copies_ + copies_of_.words() + pieces.first * each, pieces.elements};
}

CopiedRange Worker::all_copied() const {
  return {0, held_parameters_.kept.elements(), copies_, copies_ + copies_of_.words(),
          static_cast<int64_t>(copies_of_.pieces().size())};
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
  if (range.count > 0) device_->renew(range, parameters_, lane);
}

/// The copies of the call's parameters, behind its operands.
void Worker::add_copies(const Call& call, std::vector<float*>& operands) const {
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    if (call.has_copy(k))
      operands.push_back(copies_ + copies_of_.of(graph().tensors()[call.operands[k]].offset)->place);
  }
}

/// Of which operands a call finds copies.
uint32_t Worker::copied_operands(const Call& call) const {
  if (copies_of_.pieces().empty()) return 0;
  uint32_t out = run_.execution().backend->copies(call, run_.execution().job.precision);
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const Tensor& t = graph().tensors()[call.operands[k]];
    if (t.kind != TensorKind::parameter || copies_of_.of(t.offset) == nullptr) out &= ~(1U << k);
  }
  return out;
}

/// The update writes what the part has of copies in the same pass.
void Worker::renew_by(Call& update, std::vector<float*>& operands, const Slice& part) const {
  const CopiedRange range = copied(part);
  if (range.count == 0) return;
  update.shape.insert(update.shape.end(), {range.count, range.first});
  update.half_operands.assign(operands.size(), 0);
  update.half_operands.push_back(part.elements);
  operands.insert(operands.end(), {range.copies, range.pieces});
}

}  // namespace tandem::exec

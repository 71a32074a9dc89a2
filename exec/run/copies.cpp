// SPDX-License-Identifier: Apache-2.0
#include "exec/run/copies.h"

#include <algorithm>
#include <map>

#include "exec/run/shares.h"

namespace tandem::exec {

namespace {

constexpr int64_t kPieceWords = sizeof(CopyPiece) / sizeof(float);

/// Parameters of which some call makes numbers of 2 bytes: where they begin in the flat vector, and elements.
std::map<int64_t, int64_t> wanted(const Execution& e, const ExecutionGraph& lowered) {
  std::map<int64_t, int64_t> out;
  const auto add = [&](const std::vector<Call>& calls) {
    for (const Call& c : calls) {
      const uint32_t wants = e.backend->copies(c, e.job.precision);
      for (std::size_t k = 0; k < c.operands.size(); ++k) {
        const Tensor& t = lowered.tensors()[c.operands[k]];
        if ((wants >> k & 1U) != 0 && t.kind == TensorKind::parameter) out.emplace(t.offset, t.elements);
      }
    }
  };
  for (uint32_t layer = 0; layer < lowered.graph().layers().size(); ++layer) {
    add(lowered.forward(layer));
    add(lowered.backward(layer));
    add(lowered.again(layer));
  }
  return out;
}

bool overlap(int64_t first, int64_t elements, int64_t other, int64_t others) {
  return first < other + others && other < first + elements;
}

}  // namespace

Copies::Copies(const Execution& e, const Program& program, const Stages& stages, uint32_t device) {
  if (e.backend->copies == nullptr) return;
  const Held held = held_parameters(program, stages, device, e.job.offload.parameters);
  const Rooms& rooms = stages.rooms(device).parameters;
  for (const auto& [first, elements] : wanted(e, stages.lowered(device))) {
    bool brought = e.job.offload.parameters;
    for (uint32_t key = 0; key < program.buckets.size(); ++key) {
      const Bucket& b = program.buckets[key];
      brought = brought || (b.role == stages.place(device).role && rooms.at[key] != Rooms::kNone &&
                            overlap(first, elements, b.first, b.elements));
    }
    if (brought || elements == 0) continue;
    flat_.push_back(first);
    pieces_.push_back({held.passes.of(first, elements), elements, words_});
    words_ += (elements + 127) / 128 * 64;  // to 256 bytes, where libraries read fastest
  }
}

int64_t Copies::all_words() const { return words_ + static_cast<int64_t>(pieces_.size()) * kPieceWords; }

const CopyPiece* Copies::of(int64_t first) const {
  const auto at = std::lower_bound(flat_.begin(), flat_.end(), first);
  return at == flat_.end() || *at != first ? nullptr : &pieces_[static_cast<std::size_t>(at - flat_.begin())];
}

Slice Copies::in(const Slice& part) const {
  Slice out;
  for (std::size_t k = 0; k < pieces_.size(); ++k) {
    if (!overlap(flat_[k], pieces_[k].elements, part.first, part.elements)) continue;
    if (out.elements++ == 0) out.first = static_cast<int64_t>(k);
  }
  return out;
}

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Updates that work on whole tensors, for the .cu files: lists of tensors that kernels take by value,
// gradients as such an update uses them, and copies of what it writes.
#include <type_traits>
#include <vector>

#include "exec/device/cuda/pieces.h"

namespace tandem::exec::cuda {

/// Some of an update's tensors, each cut into chunks, which blocks take.
struct TensorGroup {
  static constexpr int kMost = 64;  ///< what a launch's arguments have room for
  int count = 0;
  int64_t first[kMost], elements[kMost], state[kMost];
  int64_t chunks[kMost + 1];  ///< of the tensors before this one

  /// Whose chunk is that?
  __device__ int find(int64_t chunk) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (chunks[middle + 1] <= chunk)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};
inline std::vector<TensorGroup> groups_of(const std::vector<UpdatedTensor>& tensors, int64_t chunk) {
  std::vector<TensorGroup> out;
  for (const UpdatedTensor& t : tensors) {
    if (t.elements == 0) continue;
    if (out.empty() || out.back().count == TensorGroup::kMost) {
      out.emplace_back();
      out.back().chunks[0] = 0;
    }
    TensorGroup& g = out.back();
    g.first[g.count] = t.first;
    g.elements[g.count] = t.elements;
    g.state[g.count] = t.state;
    g.chunks[g.count + 1] = g.chunks[g.count] + (t.elements + chunk - 1) / chunk;
    ++g.count;
  }
  return out;
}

/// The gradient of an element; in fp16 one that is not finite counts as 0, and the scale is halved.
__device__ inline float usable(const State& s, float gradient) {
  if (s.loss != nullptr && !finite(gradient)) {
    s.loss->overflow = 1;
    return 0;
  }
  return s.gradient_scale * gradient;
}
__device__ inline bool skipped(const State& s) { return s.loss != nullptr && s.loss->skips != 0; }

/// Where an update's copies of parameters are, if it has some, after that many operands. Never changes once
/// made: any thread may ask.
class UpdateCopies {
 public:
  UpdateCopies(const Call& c, std::size_t operands) : operands_(operands), copies_(c.shape.size() > 2) {
    if (!copies_) return;
    range_.elements = c.shape[0];
    range_.piece_count = c.shape[2];
    range_.matrix_count = c.shape[3];
    range_.first = c.shape[4];
  }
  CopiedRange at(const Launch& l) const {
    CopiedRange out = range_;
    if (!copies_) return out;
    out.copies = l.operands[operands_];
    out.pieces = l.operands[operands_ + 1];
    out.matrices = l.operands[operands_ + 2];
    return out;
  }

 private:
  std::size_t operands_;
  bool copies_;
  CopiedRange range_;
};
/// Element `i` of the update's range, and its copy; H: of the copies, void without. `piece`: what find() said
/// of this element or one before it.
template <typename H>
__device__ void write_parameter(const Pieces& pieces, int64_t piece, float* p, int64_t i, float value) {
  p[i] = value;
  if constexpr (!std::is_void_v<H>) {
    const float one[1] = {value};
    pieces.store<H>(piece, i, one);
  }
}
template <typename H>
__device__ int64_t first_piece(const Pieces& pieces, int64_t i) {
  if constexpr (std::is_void_v<H>)
    return 0;
  else
    return pieces.find(i);
}

template <typename H>
Prepared lamb(const Call& call);  // lamb.cu
template <typename H>
Prepared adafactor(const Call& call);  // adafactor.cu
template <typename H>
Prepared adamw_8bit(const Call& call);  // adamw_8bit.cu

}  // namespace tandem::exec::cuda

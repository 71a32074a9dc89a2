// SPDX-License-Identifier: Apache-2.0
// AdamW with moments in bytes, as exec/device/cpu/adamw_8bit.cpp says: a block of threads takes a block of
// the state, an element each.
#include "exec/device/cuda/tensors.h"
#include "exec/device/quantiles.h"

namespace tandem::exec::cuda {

namespace {

__device__ const Quantiles kFirstMoments = quantiles(true), kSecondMoments = quantiles(false);

/// A moment of one block: this thread's element.
struct Moment {
  uint8_t* bytes;
  float* scale;
  __device__ float read(const float* values) const { return *scale * values[bytes[threadIdx.x]]; }
  /// By all threads; `there`: has this one an element?
  __device__ void write(const float* values, float value, bool there) const {
    const float most = block_max(there ? fabsf(value) : 0);
    __syncthreads();  // all have read the scale
    if (there) bytes[threadIdx.x] = nearest(values, most > 0 ? value / most : 0);
    if (threadIdx.x == 0) *scale = most;
  }
};

template <typename H>
__global__ void adamw_8bit_kernel(TensorGroup group, const State* state, float* p, const float* g,
                                  float* moments, Pieces pieces) {
  __shared__ float first_values[kQuantised], second_values[kQuantised];
  const State s = *state;
  if (skipped(s)) return;
  first_values[threadIdx.x] = kFirstMoments.values[threadIdx.x];
  second_values[threadIdx.x] = kSecondMoments.values[threadIdx.x];
  __syncthreads();
  for (int64_t unit = blockIdx.x; unit < group.chunks[group.count]; unit += gridDim.x) {
    const int tensor = group.find(unit);
    const int64_t block = unit - group.chunks[tensor], begin = block * kQuantised;
    const QuantisedState at{group.elements[tensor]};
    float* const own = moments + group.state[tensor];
    const Moment first{reinterpret_cast<uint8_t*>(own) + begin, own + at.first_scales() + block},
        second{reinterpret_cast<uint8_t*>(own + at.second()) + begin, own + at.second_scales() + block};
    const bool there = begin + threadIdx.x < at.elements;
    const int64_t i = group.first[tensor] + begin + threadIdx.x;
    float m = 0, v = 0;
    if (there) {
      m = at.small() ? own[begin + threadIdx.x] : first.read(first_values);
      v = at.small() ? own[at.second() + begin + threadIdx.x] : second.read(second_values);
      const float x = usable(s, g[i]);
      m = 0.9F * m + 0.1F * x;
      v = 0.999F * v + 0.001F * x * x;
      const float now =
          (1 - s.learning_rate * 0.01F) * p[i] - s.adam_rate * m / (sqrtf(v) * s.adam_unbias + 1e-8F);
      write_parameter<H>(pieces, first_piece<H>(pieces, i), p, i, now);
    }
    if (!at.small()) {
      first.write(first_values, m, there);
      second.write(second_values, v, there);
    } else if (there) {
      own[begin + threadIdx.x] = m;
      own[at.second() + begin + threadIdx.x] = v;
    }
  }
}

}  // namespace

template <typename H>
Prepared adamw_8bit(const Call& c) {
  static_assert(kThreads == kQuantised);
  return {[groups = groups_of(c.tensors, kQuantised), copies = UpdateCopies(c, 3)](const Launch& l) {
    const CopiedRange range = copies.at(l);
    for (const TensorGroup& g : groups)
      launch(adamw_8bit_kernel<H>, static_cast<unsigned>(std::min<int64_t>(8192, g.chunks[g.count])),
             kThreads, l.stream, g, l.state, l.operands[0], l.operands[1], l.operands[2], Pieces(range));
    renew_matrices(range, l.operands[0] - range.first, l.stream);
  }};
}

template Prepared adamw_8bit<void>(const Call&);
template Prepared adamw_8bit<Bf16>(const Call&);
template Prepared adamw_8bit<Fp16>(const Call&);

}  // namespace tandem::exec::cuda

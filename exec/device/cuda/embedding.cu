// SPDX-License-Identifier: Apache-2.0
// Table look-ups. The gradient is made by the block of each id's first occurrence, which adds the rows of all
// its occurrences in their order: no atomics, and the CPU's sums to the bit.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

template <typename T>
__global__ void embedding_kernel(int64_t tokens, int64_t width, int64_t vocabulary, int64_t begin, T* y,
                                 const float* table, const int32_t* ids) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < tokens * width; i += stride) {
    const int64_t row = ids[i / width] - begin;
    store(y + i, row < 0 || row >= vocabulary ? 0.0F : table[row * width + i % width]);
  }
}

constexpr int kIds = 256;  ///< looked at together, one a thread

template <typename T>
__global__ void embedding_backward_kernel(int64_t tokens, int64_t width, int64_t vocabulary, int64_t start,
                                          float* dtable, const T* dy, const int32_t* ids) {
  __shared__ unsigned found[kIds / kWarp];
  __shared__ int list[kIds];  // the strip's tokens that hold the id, in order
  const int64_t first = blockIdx.x, column = static_cast<int64_t>(blockIdx.y) * kIds + threadIdx.x;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int32_t id = ids[first];
  const int64_t row = id - start;
  if (row < 0 || row >= vocabulary) return;  // another device's; all threads of the block see the same
  bool again = false;
#pragma unroll 8
  for (int64_t t = threadIdx.x; t < first; t += kIds) again |= ids[t] == id;
  if (__syncthreads_or(again ? 1 : 0) != 0) return;  // another block's
  const auto id_at = [&](int64_t t) { return t >= first && t < tokens ? ids[t] : -1; };
  const int64_t strips = first / kIds * kIds;
  int32_t next = id_at(strips + threadIdx.x);
  for (int64_t begin = strips; begin < tokens; begin += kIds) {
    const bool holds = next == id;
    next = id_at(begin + kIds + threadIdx.x);            // comes while the strip is looked at
    if (__syncthreads_or(holds ? 1 : 0) == 0) continue;  // and the last strip's have been read
    const unsigned hits = __ballot_sync(0xffffffffU, holds);
    if (lane == 0) found[warp] = hits;
    __syncthreads();
    int before = 0, count = 0;
    for (unsigned w = 0; w < kIds / kWarp; ++w) {
      if (w < warp) before += __popc(found[w]);
      count += __popc(found[w]);
    }
    if ((hits >> lane & 1U) != 0)
      list[before + __popc(hits & ((1U << lane) - 1))] = static_cast<int>(threadIdx.x);
    __syncthreads();
    if (column >= width) continue;
    float sum = dtable[row * width + column];
#pragma unroll 8
    for (int k = 0; k < count; ++k) sum += load(dy + (begin + list[k]) * width + column);
    dtable[row * width + column] = sum;
  }
}

struct Zero {
  __device__ float operator()(float) const { return 0; }
};

template <typename T>
Prepared embedding(const Call& c) {
  const int64_t tokens = c.shape[0], width = c.shape[1], vocabulary = c.shape[2], first = c.shape[3];
  return {[=](const Launch& l) {
    launch(embedding_kernel<T>, std::min(16384U, blocks_for(tokens * width)), kThreads, l.stream, tokens,
           width, vocabulary, first, operand<T>(l, 0), l.operands[1], operand<int32_t>(l, 2));
  }};
}

template <typename T>
Prepared embedding_backward(const Call& c) {
  const int64_t tokens = c.shape[0], width = c.shape[1], vocabulary = c.shape[2];
  const bool adds = c.shape[3] != 0;
  const int64_t first = c.shape[4];
  return {[=](const Launch& l) {
    if (!adds) map(vocabulary * width, Zero{}, l.operands[0], l.operands[0], l.stream);
    launch(embedding_backward_kernel<T>, dim3(static_cast<unsigned>(tokens), blocks_for(width, kIds)), kIds,
           l.stream, tokens, width, vocabulary, first, l.operands[0], operand<T>(l, 1),
           operand<int32_t>(l, 2));
  }};
}

__global__ void restore_kernel(StoredShape s, float* weight, const float* stored, const int8_t* bytes) {
  const int64_t i = global_index();
  if (i < s.elements) weight[i] = s.value(stored, bytes, i);
}

Prepared restore(const Call& c) {
  const StoredShape s(c.shape);
  return {[=](const Launch& l) {
    launch(restore_kernel, blocks_for(s.elements), kThreads, l.stream, s, l.operands[0], l.operands[1],
           reinterpret_cast<const int8_t*>(l.operands[1] + s.floats()));
  }};
}

}  // namespace

void add_embedding(Table& t) {
  set(t, Function::restore, restore);
  set(t, Function::embedding, embedding<float>, embedding<Bf16>, embedding<Fp16>, half_operands<0>);
  set(t, Function::embedding_backward, embedding_backward<float>, embedding_backward<Bf16>,
      embedding_backward<Fp16>, half_operands<1>);
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// LAMB, as exec/device/cpu/lamb.cpp says: moments, squares of chunks of tensors, ratios of tensors, steps.
#include "exec/device/cuda/tensors.h"

namespace tandem::exec::cuda {

namespace {

constexpr int64_t kLambChunk = 4096;

/// A chunk of a tensor: elements [begin, end) of the update's range.
struct LambChunk {
  int tensor;
  int64_t begin, end;
  __device__ explicit LambChunk(const TensorGroup& g) : tensor(g.find(blockIdx.x)) {
    begin = (static_cast<int64_t>(blockIdx.x) - g.chunks[tensor]) * kLambChunk;
    end = begin + kLambChunk < g.elements[tensor] ? begin + kLambChunk : g.elements[tensor];
    begin += g.first[tensor];
    end += g.first[tensor];
  }
};

__device__ float lamb_step(const State& s, float p, float m, float v) {
  return m * s.adam_mean / (sqrtf(v) * s.adam_unbias + 1e-6F) + 0.01F * p;
}

__global__ void lamb_moments(TensorGroup group, const State* state, const float* g, float* m, float* v) {
  const State s = *state;
  if (skipped(s)) return;
  const LambChunk chunk(group);
#pragma unroll 4
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const float x = usable(s, g[i]);
    m[i] = 0.9F * m[i] + 0.1F * x;
    v[i] = 0.999F * v[i] + 0.001F * x * x;
  }
}

__global__ void lamb_squares(TensorGroup group, const State* state, const float* p, const float* m,
                             const float* v, float* squares) {
  const State s = *state;
  const LambChunk chunk(group);
  float sums[2] = {0, 0};
#pragma unroll 4
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const float step = lamb_step(s, p[i], m[i], v[i]);
    sums[0] += p[i] * p[i];
    sums[1] += step * step;
  }
  block_sum(sums);
  if (threadIdx.x != 0) return;
  squares[2 * static_cast<int64_t>(blockIdx.x)] = sums[0];
  squares[2 * static_cast<int64_t>(blockIdx.x) + 1] = sums[1];
}

__global__ void lamb_ratios(TensorGroup group, const float* squares, float* ratios) {
  float sums[2] = {0, 0};
  for (int64_t c = group.chunks[blockIdx.x] + threadIdx.x; c < group.chunks[blockIdx.x + 1];
       c += blockDim.x) {
    sums[0] += squares[2 * c];
    sums[1] += squares[2 * c + 1];
  }
  block_sum(sums);
  if (threadIdx.x == 0)
    ratios[blockIdx.x] = sums[0] == 0 || sums[1] == 0 ? 1 : sqrtf(sums[0]) / sqrtf(sums[1]);
}

template <typename H>
__global__ void lamb_apply(TensorGroup group, const State* state, float* p, const float* m, const float* v,
                           const float* ratios, Pieces pieces) {
  const State s = *state;
  if (skipped(s)) return;
  const LambChunk chunk(group);
  const float rate = s.learning_rate * ratios[chunk.tensor];
  const int64_t piece = first_piece<H>(pieces, chunk.begin);
#pragma unroll 4
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.end; i += blockDim.x)
    write_parameter<H>(pieces, piece, p, i, p[i] - rate * lamb_step(s, p[i], m[i], v[i]));
}

}  // namespace

template <typename H>
Prepared lamb(const Call& c) {
  const std::vector<TensorGroup> groups = groups_of(c.tensors, kLambChunk);
  const UpdateCopies copies(c, 4);
  int64_t most = 0;
  for (const TensorGroup& g : groups) most = std::max(most, g.chunks[g.count]);
  return {[=](const Launch& l) {
            const CopiedRange range = copies.at(l);
            float *p = l.operands[0], *m = l.operands[2], *v = l.operands[3];
            float *squares = l.scratch, *ratios = l.scratch + 2 * most;
            for (const TensorGroup& g : groups) {
              const auto chunks = static_cast<unsigned>(g.chunks[g.count]);
              launch(lamb_moments, chunks, kThreads, l.stream, g, l.state, l.operands[1], m, v);
              launch(lamb_squares, chunks, kThreads, l.stream, g, l.state, p, m, v, squares);
              launch(lamb_ratios, static_cast<unsigned>(g.count), kThreads, l.stream, g, squares, ratios);
              launch(lamb_apply<H>, chunks, kThreads, l.stream, g, l.state, p, m, v, ratios, Pieces(range));
            }
            renew_matrices(range, p - range.first, l.stream);
          },
          2 * most + TensorGroup::kMost};
}

template Prepared lamb<void>(const Call&);
template Prepared lamb<Bf16>(const Call&);
template Prepared lamb<Fp16>(const Call&);

}  // namespace tandem::exec::cuda

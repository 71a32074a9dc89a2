// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts. How many rows an expert has is only known on the device: grids are made for the most,
// and blocks without rows end at once. Sums are in the order of rows and choices, with no atomics.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

struct Sigmoid {
  __host__ __device__ float operator()(float x) const { return 1 / (1 + expf(-x)); }
};

/// A row's scores, choices and weights: one thread a row, since there are few experts.
__global__ void choose_kernel(RouteShape s, float* weights, int32_t* choices, float* scores,
                              const float* logits) {
  const int64_t row = global_index();
  if (row >= s.rows) return;
  const float* x = logits + row * s.experts;
  float* y = scores + row * s.experts;
  int32_t* chosen = choices + row * s.active;
  float top = x[0], all = 0, sum = 0;
  for (int64_t e = 1; e < s.experts; ++e) top = fmaxf(top, x[e]);
  for (int64_t e = 0; e < s.experts; ++e) {
    y[e] = s.score == RouteShape::Score::sigmoid ? Sigmoid{}(x[e]) : expf(x[e] - top);
    all += y[e];
  }
  if (s.score == RouteShape::Score::softmax) {
    for (int64_t e = 0; e < s.experts; ++e) y[e] /= all;
  }
  for (int64_t j = 0; j < s.active; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < s.experts; ++e) {
      bool taken = false;
      for (int64_t k = 0; k < j; ++k) taken = taken || chosen[k] == e;
      if (!taken && (best < 0 || x[e] > x[best])) best = e;
    }
    chosen[j] = static_cast<int32_t>(best);
    sum += y[best];
  }
  for (int64_t j = 0; j < s.active; ++j)
    weights[row * s.active + j] = s.scale * y[chosen[j]] / (s.normalised ? sum : 1);
}

/// One block an expert walks all choices in the order in which they are served and numbers its own.
/// `places`: within the expert; with a capacity, after all earlier ones.
__global__ void number_kernel(RouteShape s, int32_t* places, int32_t* counts, const int32_t* choices) {
  __shared__ unsigned found[kThreads / kWarp];
  const int32_t expert = static_cast<int32_t>(blockIdx.x);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t all = s.rows * s.active;
  int64_t before = 0;
  for (int64_t begin = 0; begin < all; begin += kThreads) {
    const int64_t k = begin + threadIdx.x;
    // With a capacity all first choices come first.
    const int64_t i = s.capacity > 0 ? k % s.rows * s.active + k / s.rows : k;
    const unsigned hits = __ballot_sync(0xffffffffU, k < all && choices[k < all ? i : 0] == expert);
    __syncthreads();  // the last strip's have been read
    if (lane == 0) found[warp] = hits;
    __syncthreads();
    int64_t mine = before;
    for (unsigned w = 0; w < kThreads / kWarp; ++w) {
      if (w < warp) mine += __popc(found[w]);
      before += __popc(found[w]);
    }
    if ((hits >> lane & 1U) == 0) continue;
    mine += __popc(hits & ((1U << lane) - 1));
    if (s.capacity == 0)
      places[i] = static_cast<int32_t>(mine);
    else
      places[i] = mine < s.capacity ? static_cast<int32_t>(expert * s.capacity + mine) : -1;
  }
  if (threadIdx.x == 0) counts[expert] = static_cast<int32_t>(s.capacity > 0 ? s.capacity : before);
}

/// Behind the tokens of the experts before.
__global__ void shift_kernel(RouteShape s, int32_t* places, const int32_t* counts, const int32_t* choices) {
  const int64_t i = global_index();
  if (i >= s.rows * s.active) return;
  int32_t before = 0;
  for (int32_t e = 0; e < choices[i]; ++e) before += counts[e];
  places[i] += before;
}

Prepared route(const Call& c) {
  const RouteShape s(c);
  return {[=](const Launch& l) {
    int32_t *choices = operand<int32_t>(l, 1), *places = operand<int32_t>(l, 2),
            *counts = operand<int32_t>(l, 3);
    launch(choose_kernel, blocks_for(s.rows), kThreads, l.stream, s, l.operands[0], choices, l.operands[4],
           l.operands[5]);
    launch(number_kernel, static_cast<unsigned>(s.experts), kThreads, l.stream, s, places, counts, choices);
    if (s.capacity == 0)
      launch(shift_kernel, blocks_for(s.rows * s.active), kThreads, l.stream, s, places, counts, choices);
  }};
}

__global__ void route_backward_kernel(RouteShape s, float* dlogits, const float* dweights,
                                      const int32_t* choices, const float* scores) {
  const int64_t row = global_index();
  if (row >= s.rows) return;
  float* dx = dlogits + row * s.experts;
  const float *dw = dweights + row * s.active, *y = scores + row * s.experts;
  const int32_t* chosen = choices + row * s.active;
  float sum = 0, dot = 0, of_all = 0;
  for (int64_t j = 0; j < s.active; ++j) {
    sum += y[chosen[j]];
    dot += dw[j] * y[chosen[j]];
  }
  const float factor = s.normalised ? s.scale / sum : s.scale, mean = s.normalised ? dot / sum : 0;
  for (int64_t e = 0; e < s.experts; ++e) dx[e] = 0;
  for (int64_t j = 0; j < s.active; ++j) {
    dx[chosen[j]] = factor * (dw[j] - mean);
    of_all += dx[chosen[j]] * y[chosen[j]];
  }
  for (int64_t e = 0; e < s.experts; ++e)
    dx[e] = s.score == RouteShape::Score::sigmoid ? dx[e] * y[e] * (1 - y[e]) : y[e] * (dx[e] - of_all);
}

Prepared route_backward(const Call& c) {
  const RouteShape s(c);
  return {[=](const Launch& l) {
    launch(route_backward_kernel, blocks_for(s.rows), kThreads, l.stream, s, l.operands[0], l.operands[1],
           operand<int32_t>(l, 2), l.operands[3]);
  }};
}

struct Zero {
  __device__ float operator()(float) const { return 0; }
};

/// One block a choice.
__global__ void dispatch_kernel(DispatchShape s, float* y, const float* x, const int32_t* places) {
  const int64_t i = blockIdx.x, place = places[i];
  if (place < 0) return;
  for (int64_t k = threadIdx.x; k < s.width; k += blockDim.x)
    y[place * s.width + k] = x[i / s.active * s.width + k];
}

Prepared dispatch(const Call& c) {
  const DispatchShape s(c);
  return {[=](const Launch& l) {
    map(s.padded * s.width, Zero{}, l.operands[0], l.operands[0], l.stream);
    launch(dispatch_kernel, static_cast<unsigned>(s.rows * s.active), row_threads(s.width), l.stream, s,
           l.operands[0], l.operands[1], operand<int32_t>(l, 2));
  }};
}

/// One block a row.
__global__ void combine_kernel(DispatchShape s, float* y, const float* x, const int32_t* places,
                               const float* weights) {
  const int64_t row = blockIdx.x;
  for (int64_t k = threadIdx.x; k < s.width; k += blockDim.x) {
    float sum = 0;
    for (int64_t i = row * s.active; i < (row + 1) * s.active; ++i) {
      if (places[i] >= 0) sum += (weights != nullptr ? weights[i] : 1) * x[places[i] * s.width + k];
    }
    y[row * s.width + k] = sum;
  }
}

Prepared combine(const Call& c) {
  const DispatchShape s(c);
  const bool weighted = c.operands.size() > 3;
  return {[=](const Launch& l) {
    launch(combine_kernel, static_cast<unsigned>(s.rows), row_threads(s.width), l.stream, s, l.operands[0],
           l.operands[1], operand<int32_t>(l, 2), weighted ? l.operands[3] : nullptr);
  }};
}

/// One block a choice.
__global__ void combine_backward_kernel(DispatchShape s, float* dx, float* dweights, const float* dy,
                                        const float* x, const int32_t* places, const float* weights) {
  const int64_t i = blockIdx.x, place = places[i];
  float dot[1] = {0};
  for (int64_t k = threadIdx.x; place >= 0 && k < s.width; k += blockDim.x) {
    const float d = dy[i / s.active * s.width + k];
    dot[0] += d * x[place * s.width + k];
    dx[place * s.width + k] = weights[i] * d;
  }
  block_sum(dot);
  if (threadIdx.x == 0) dweights[i] = dot[0];
}

Prepared combine_backward(const Call& c) {
  const DispatchShape s(c);
  return {[=](const Launch& l) {
    map(s.padded * s.width, Zero{}, l.operands[0], l.operands[0], l.stream);
    launch(combine_backward_kernel, static_cast<unsigned>(s.rows * s.active), row_threads(s.width), l.stream,
           s, l.operands[0], l.operands[1], l.operands[2], l.operands[3], operand<int32_t>(l, 4),
           l.operands[5]);
  }};
}

constexpr int kTile = 16;

struct ExpertProduct {
  ExpertGroups groups;
  int64_t n, k;
  bool transposed, adds;
  int64_t bias_row, bias_at;
};

/// Blocks: tiles of columns, tiles of rows of an expert, experts.
__global__ void expert_gemm_kernel(ExpertProduct p, float* c, const float* a, const float* b,
                                   const int32_t* counts, const float* bias) {
  __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
  const int64_t expert = blockIdx.z, rows = p.groups.rows(counts, expert);
  if (static_cast<int64_t>(blockIdx.y) * kTile >= rows) return;  // all threads of the block see the same
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.y,
                column = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x,
                first = p.groups.begin(counts, expert);
  const float* matrix = b + expert * p.n * p.k;
  float sum = 0;
  for (int64_t begin = 0; begin < p.k; begin += kTile) {
    const int64_t ka = begin + threadIdx.x, kb = begin + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < rows && ka < p.k ? a[(first + row) * p.k + ka] : 0;
    right[threadIdx.y][threadIdx.x] =
        column < p.n && kb < p.k ? matrix[p.transposed ? column * p.k + kb : kb * p.n + column] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row >= rows || column >= p.n) return;
  if (bias != nullptr) sum += bias[expert * p.bias_row + p.bias_at + column];
  float* to = c + (first + row) * p.n + column;
  *to = p.adds ? *to + sum : sum;
}

Prepared expert_gemm(const Call& c) {
  const ExpertGroups g(c);
  const int64_t* own = c.shape.data() + ExpertGroups::kSizes;
  const ExpertProduct p{g, own[0], own[1], own[2] != 0, own[3] != 0, own[4], own[5]};
  const bool bias = c.operands.size() > 4;
  return {[=](const Launch& l) {
    launch(expert_gemm_kernel,
           dim3(blocks_for(p.n, kTile), blocks_for(g.most, kTile), static_cast<unsigned>(g.experts)),
           dim3(kTile, kTile), l.stream, p, l.operands[0], l.operands[1], l.operands[2],
           operand<int32_t>(l, 3), bias ? l.operands[4] : nullptr);
  }};
}

/// db[k, n] of an expert, a tile a block.
__global__ void expert_gemm_weights_kernel(ExpertGroups g, int64_t n, int64_t k, float* db, const float* a,
                                           const float* dc, const int32_t* counts) {
  __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
  const int64_t expert = blockIdx.z, rows = g.rows(counts, expert), first = g.begin(counts, expert);
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.y,
                column = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x,
                from = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.x;
  float sum = 0;
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t r = begin + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = r < rows && from < k ? a[(first + r) * k + from] : 0;
    right[threadIdx.y][threadIdx.x] = r < rows && column < n ? dc[(first + r) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += left[i][threadIdx.y] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < k && column < n) db[(expert * k + row) * n + column] = sum;
}

Prepared expert_gemm_weights(const Call& c) {
  const ExpertGroups g(c);
  const int64_t n = c.shape[ExpertGroups::kSizes], k = c.shape[ExpertGroups::kSizes + 1];
  return {[=](const Launch& l) {
    launch(expert_gemm_weights_kernel,
           dim3(blocks_for(n, kTile), blocks_for(k, kTile), static_cast<unsigned>(g.experts)),
           dim3(kTile, kTile), l.stream, g, n, k, l.operands[0], l.operands[1], l.operands[2],
           operand<int32_t>(l, 3));
  }};
}

__global__ void expert_column_sum_kernel(ExpertGroups g, int64_t columns, int64_t row, int64_t at,
                                         float* sums, const float* x, const int32_t* counts) {
  const int64_t column = global_index(), expert = blockIdx.y;
  if (column >= columns) return;
  const int64_t rows = g.rows(counts, expert), first = g.begin(counts, expert);
  float sum = 0;
  for (int64_t r = first; r < first + rows; ++r) sum += x[r * columns + column];
  sums[expert * row + at + column] = sum;
}

Prepared expert_column_sum(const Call& c) {
  const ExpertGroups g(c);
  const int64_t* own = c.shape.data() + ExpertGroups::kSizes;
  const int64_t columns = own[0], row = own[1], at = own[2];
  return {[=](const Launch& l) {
    launch(expert_column_sum_kernel, dim3(blocks_for(columns), static_cast<unsigned>(g.experts)), kThreads,
           l.stream, g, columns, row, at, l.operands[0], l.operands[1], operand<int32_t>(l, 2));
  }};
}

__global__ void gate_kernel(ExpertGroups g, int64_t columns, GateOf f, float* y, const float* gate,
                            const float* up, const int32_t* counts) {
  const int64_t n = g.begin(counts, g.experts) * columns, i = global_index();
  if (i < n) y[i] = f.value(gate[i], up[i], Sigmoid{});
}

__global__ void gate_backward_kernel(ExpertGroups g, int64_t columns, GateOf f, float* dgate, float* dup,
                                     const float* dy, const float* gate, const float* up,
                                     const int32_t* counts) {
  const int64_t n = g.begin(counts, g.experts) * columns, i = global_index();
  if (i >= n) return;
  const GateOf::Gradient d = f.gradient(gate[i], up[i], Sigmoid{});
  const float of_y = dy[i];
  dgate[i] = of_y * d.gate;
  dup[i] = of_y * d.up;
}

Prepared gate(const Call& c) {
  const ExpertGroups g(c);
  const int64_t columns = c.shape[ExpertGroups::kSizes];
  const GateOf f{c.scalars[0]};
  return {[=](const Launch& l) {
    launch(gate_kernel, blocks_for(g.most * columns), kThreads, l.stream, g, columns, f, l.operands[0],
           l.operands[1], l.operands[2], operand<int32_t>(l, 3));
  }};
}

Prepared gate_backward(const Call& c) {
  const ExpertGroups g(c);
  const int64_t columns = c.shape[ExpertGroups::kSizes];
  const GateOf f{c.scalars[0]};
  return {[=](const Launch& l) {
    launch(gate_backward_kernel, blocks_for(g.most * columns), kThreads, l.stream, g, columns, f,
           l.operands[0], l.operands[1], l.operands[2], l.operands[3], l.operands[4], operand<int32_t>(l, 5));
  }};
}

}  // namespace

void add_experts(Table& t) {
  set(t, Function::route, route);
  set(t, Function::route_backward, route_backward);
  set(t, Function::dispatch, dispatch);
  set(t, Function::combine, combine);
  set(t, Function::combine_backward, combine_backward);
  set(t, Function::expert_gemm, expert_gemm);
  set(t, Function::expert_gemm_weights, expert_gemm_weights);
  set(t, Function::expert_column_sum, expert_column_sum);
  set(t, Function::gate, gate);
  set(t, Function::gate_backward, gate_backward);
}

}  // namespace tandem::exec::cuda

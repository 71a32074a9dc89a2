// SPDX-License-Identifier: Apache-2.0
// Normalisations of rows (layer, group, pixel, root mean square): one block a row; and over neighbouring
// channels.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

struct Rows : RowShape {
  using RowShape::RowShape;
  unsigned threads() const { return row_threads(count()); }
  /// Place of element `e` of a row, and its channel among all.
  __device__ int64_t at(int64_t row, int64_t e) const {
    if (groups == 1) return row * space * channels + e;
    return ((row / groups * space + e / channels) * groups + row % groups) * channels + e % channels;
  }
  __device__ int64_t channel(int64_t row, int64_t e) const { return row % groups * channels + e % channels; }
};

/// Elements that a thread takes at once: four where a row lies in one piece, however they are stored, so that
/// sums of 2 bytes and of 4 are made in one order.
int wide_of(const Rows& s) { return s.groups == 1 && s.space == 1 && s.channels % 4 == 0 ? 4 : 1; }
template <typename... T>
bool lie_well(const Rows& s, const T*... at) {
  return wide_of(s) == 4 && ((reinterpret_cast<uintptr_t>(at) % (4 * sizeof(T)) == 0) && ...);
}

template <int W, typename T>
__global__ void row_norm_kernel(Rows s, float epsilon, T* y, const T* x, float* statistics,
                                const float* scale, const float* shift) {
  const int64_t row = blockIdx.x, n = s.space * s.channels, step = int64_t{blockDim.x} * W;
  const float share = 1 / static_cast<float>(n);
  float v[W], sum[1] = {0};
  if (!s.rms) {
    for (int64_t e = int64_t{threadIdx.x} * W; e < n; e += step) {
      load_neighbours(x + s.at(row, e), v);
#pragma unroll
      for (int k = 0; k < W; ++k) sum[0] += v[k];
    }
    block_sum(sum);
  }
  const float mean = sum[0] * share;
  float square[1] = {0};
  for (int64_t e = int64_t{threadIdx.x} * W; e < n; e += step) {
    load_neighbours(x + s.at(row, e), v);
#pragma unroll
    for (int k = 0; k < W; ++k) square[0] += (v[k] - mean) * (v[k] - mean);
  }
  block_sum(square);
  const float deviation = 1 / sqrtf(square[0] * share + epsilon);
  if (threadIdx.x == 0) {
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = deviation;
  }
  for (int64_t e = int64_t{threadIdx.x} * W; e < n; e += step) {
    const int64_t at = s.at(row, e), c = s.channel(row, e);
    load_neighbours(x + at, v);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      v[k] = (v[k] - mean) * deviation;
      if (scale != nullptr) v[k] *= scale[c + k];
      if (shift != nullptr) v[k] += shift[c + k];
    }
    store_neighbours(y + at, v);
  }
}

template <typename T>
Prepared row_norm(const Call& c) {
  const Rows s(c);
  const float epsilon = c.scalars.at(0);
  const std::size_t learned = c.operands.size() - 3;
  return {[=](const Launch& l) {
    float* const* o = l.operands;
    T *y = operand<T>(l, 0), *x = operand<T>(l, 1);
    launch(lie_well(s, y, x) ? row_norm_kernel<4, T> : row_norm_kernel<1, T>, static_cast<unsigned>(s.rows()),
           s.threads(), l.stream, s, epsilon, y, x, o[2], learned > 0 ? o[3] : nullptr,
           learned > 1 ? o[4] : nullptr);
  }};
}

/// Columns are all channels, rows all (outer, space).
template <typename T>
struct Terms {
  Rows s;
  const T *x, *dy;
  const float* statistics;
  template <int W>
  __device__ void operator()(int64_t r, int64_t c, float (&out)[W][2]) const {
    const int64_t at = r * s.groups * s.channels + c;
    float d[W], v[W];
    load_neighbours(dy + at, d);
    load_neighbours(x + at, v);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const int64_t row = r / s.space * s.groups + (c + k) / s.channels;
      out[k][0] = d[k] * (v[k] - statistics[2 * row]) * statistics[2 * row + 1];
      out[k][1] = d[k];
    }
  }
};
struct WriteTerms {
  float *dscale, *dshift;
  __device__ void operator()(int64_t c, const float (&sums)[2]) const {
    dscale[c] = sums[0];
    if (dshift != nullptr) dshift[c] = sums[1];
  }
};

template <typename T>
Prepared row_norm_sums(const Call& c) {
  const Rows s(c);
  const bool shifted = c.operands.size() > 4;
  const ColumnCut cut(s.outer * s.space, s.groups * s.channels);
  return {[=](const Launch& l) {
            const std::size_t in = shifted ? 2 : 1;
            const T *x = operand<T>(l, in), *dy = operand<T>(l, in + 1);
            column_sums<2>(cut, contiguous_columns(cut, x, dy), Terms<T>{s, x, dy, l.operands[in + 2]},
                           WriteTerms{l.operands[0], shifted ? l.operands[1] : nullptr}, l.scratch, l.stream);
          },
          cut.scratch(2)};
}

/// v and, times the channel's scale, d: W elements of a row.
template <int W, typename T>
__device__ void row_terms(const Rows& s, int64_t row, int64_t e, const T* x, const T* dy, const float* scale,
                          float (&v)[W], float (&d)[W]) {
  const int64_t at = s.at(row, e), c = s.channel(row, e);
  load_neighbours(dy + at, d);
  load_neighbours(x + at, v);
#pragma unroll
  for (int k = 0; k < W; ++k) d[k] *= scale != nullptr ? scale[c + k] : 1.0F;
}

template <int W, typename T>
__global__ void row_norm_backward_kernel(Rows s, T* dx, const T* x, const T* dy, const float* statistics,
                                         const float* scale) {
  const int64_t row = blockIdx.x, n = s.space * s.channels, step = int64_t{blockDim.x} * W;
  const float mean = statistics[2 * row], deviation = statistics[2 * row + 1],
              share = 1 / static_cast<float>(n);
  float sums[2] = {0, 0}, v[W], d[W];
  for (int64_t e = int64_t{threadIdx.x} * W; e < n; e += step) {
    row_terms(s, row, e, x, dy, scale, v, d);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      sums[0] += d[k];
      sums[1] += d[k] * (v[k] - mean);
    }
  }
  block_sum(sums);
  const float sum = s.rms ? 0 : sums[0] * share, dot = sums[1] * share * deviation * deviation;
  for (int64_t e = int64_t{threadIdx.x} * W; e < n; e += step) {
    row_terms(s, row, e, x, dy, scale, v, d);
#pragma unroll
    for (int k = 0; k < W; ++k) d[k] = deviation * (d[k] - sum - (v[k] - mean) * dot);
    store_neighbours(dx + s.at(row, e), d);
  }
}

template <typename T>
Prepared row_norm_backward(const Call& c) {
  const Rows s(c);
  const bool scaled = c.operands.size() > 4;
  return {[=](const Launch& l) {
    float* const* o = l.operands;
    T *dx = operand<T>(l, 0), *x = operand<T>(l, 1), *dy = operand<T>(l, 2);
    launch(lie_well(s, dx, x, dy) ? row_norm_backward_kernel<4, T> : row_norm_backward_kernel<1, T>,
           static_cast<unsigned>(s.rows()), s.threads(), l.stream, s, dx, x, dy, o[3],
           scaled ? o[4] : nullptr);
  }};
}

/// d^-0.75, the exponent of the paper.
__device__ float power(float d) {
  const float root = sqrtf(d);
  return 1 / (root * sqrtf(root));
}

/// Channels [c - half, c + half] count for channel c (Krizhevsky et al. 2012, section 3.3).
template <typename T>
__global__ void lrn_kernel(int64_t count, int64_t n, int64_t half, float k, float alpha, T* y, const T* x,
                           T* denominator) {
  const int64_t i = global_index();
  if (i >= count) return;
  const int64_t c = i % n, from = c < half ? -c : -half, to = c + half < n ? half : n - 1 - c;
  float d = k;
  for (int64_t shift = from; shift <= to; ++shift) d += alpha * load(x + i + shift) * load(x + i + shift);
  store(denominator + i, d);
  store(y + i, load(x + i) * power(d));
}

template <typename T>
__global__ void lrn_backward_kernel(int64_t count, int64_t n, int64_t half, float alpha, float beta, T* dx,
                                    const T* x, const T* y, const T* dy, const T* denominator) {
  const int64_t i = global_index();
  if (i >= count) return;
  const int64_t c = i % n, from = c < half ? -c : -half, to = c + half < n ? half : n - 1 - c;
  float sum = 0;
  for (int64_t shift = from; shift <= to; ++shift)
    sum += load(dy + i + shift) * load(y + i + shift) / load(denominator + i + shift);
  store(dx + i, load(dy + i) * power(load(denominator + i)) - 2 * alpha * beta * load(x + i) * sum);
}

Prepared lrn(const Call& c) {
  const int64_t n = c.shape[1], count = c.shape[0] * n, half = c.shape[2] / 2;
  const float k = c.scalars[0], alpha = c.scalars[1];
  TANDEM_CHECK(c.scalars[2] == 0.75F);  // what power() computes
  return {[=](const Launch& l) {
    launch(lrn_kernel<float>, blocks_for(count), kThreads, l.stream, count, n, half, k, alpha, l.operands[0],
           l.operands[1], l.operands[2]);
  }};
}

Prepared lrn_backward(const Call& c) {
  const int64_t n = c.shape[1], count = c.shape[0] * n, half = c.shape[2] / 2;
  const float alpha = c.scalars[1], beta = c.scalars[2];
  return {[=](const Launch& l) {
    float* const* o = l.operands;
    launch(lrn_backward_kernel<float>, blocks_for(count), kThreads, l.stream, count, n, half, alpha, beta,
           o[0], o[1], o[2], o[3], o[4]);
  }};
}

}  // namespace

void add_row_norm(Table& t) {
  set(t, Function::row_norm, row_norm<float>, row_norm<Bf16>, row_norm<Fp16>, half_operands<0, 1>);
  set(t, Function::row_norm_sums, row_norm_sums<float>, row_norm_sums<Bf16>, row_norm_sums<Fp16>,
      [](const Call& c) { return c.operands.size() > 4 ? half_operands<2, 3>(c) : half_operands<1, 2>(c); });
  set(t, Function::row_norm_backward, row_norm_backward<float>, row_norm_backward<Bf16>,
      row_norm_backward<Fp16>, half_operands<0, 1, 2>);
  set(t, Function::lrn, lrn);
  set(t, Function::lrn_backward, lrn_backward);
}

}  // namespace tandem::exec::cuda

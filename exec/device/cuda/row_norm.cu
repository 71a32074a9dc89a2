// SPDX-License-Identifier: Apache-2.0
// Normalisations of rows (layer, group, pixel, root mean square): each row is read once where a block's
// threads can keep it; and over neighbouring channels.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

/// Places within a row are counted in 32 bits: divisions of 64 would take longer than the memory.
struct Rows : RowShape {
  explicit Rows(const Call& c) : RowShape(c) { TANDEM_CHECK(count() < int64_t{1} << 31); }
  unsigned threads() const { return row_threads(count()); }
  bool plain() const { return groups == 1 && space == 1; }  ///< rows lie one after the other
  __device__ unsigned elements() const { return static_cast<unsigned>(space * channels); }
  /// Where row `row` begins, and its first channel among all.
  __device__ int64_t start(int64_t row) const {
    return (row / groups * space * groups + row % groups) * channels;
  }
  __device__ int64_t first_channel(int64_t row) const { return row % groups * channels; }
  /// Element `e` of a row from there on.
  __device__ int64_t at(unsigned e) const {
    if (groups == 1) return e;
    const auto n = static_cast<unsigned>(channels);
    return e / n * (groups * channels) + e % n;
  }
  __device__ unsigned channel(unsigned e) const {
    return space == 1 ? e : e % static_cast<unsigned>(channels);
  }
};

/// Elements that a thread takes at once, and how often at most where it keeps them. However they are stored,
/// so that sums of 2 bytes and of 4 are made in one order.
constexpr int kPiece = 8, kPieces = 4;
template <typename... T>
bool pieces(const Rows& s, int wide, const T*... at) {
  return s.plain() && s.channels % wide == 0 && neighbours_at(wide, at...);
}
/// Threads of a block that keep a row. More would not get their registers: a block has 65536, and for sm_90
/// these kernels take up to 90 a thread. Longer rows are not kept.
constexpr unsigned kMostHolding = 512;
/// Blocks whose threads keep their rows: a warp a row, of four rows, as long as that is enough.
struct Held {
  dim3 block{kWarp, 4};
  unsigned grid;
  bool fits;
  explicit Held(const Rows& s) {
    while (block.x < kMostHolding && block.x * kPiece * kPieces < s.count()) block = dim3(block.x * 2, 1);
    grid = blocks_for(s.rows(), block.y);
    fits = block.x * kPiece * kPieces >= s.count();
  }
};
__device__ unsigned held_at(int piece) { return (piece * blockDim.x + threadIdx.x) * kPiece; }
/// All pieces at once: those past the row's end are read from its last, and ignored.
template <typename T>
__device__ void read_row(const T* row, unsigned n, float (&out)[kPieces][kPiece]) {
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const unsigned e = held_at(p), last = n - kPiece;
    load_neighbours(row + (e < last ? e : last), out[p]);
  }
}

/// y = (x - mean) deviation scale + shift, of W neighbours.
template <int W, typename T>
__device__ void write_normal(T* y, float (&v)[W], float mean, float deviation, const float* scale,
                             const float* shift) {
  float factor[W], more[W];
  if (scale != nullptr) load_neighbours(scale, factor);
  if (shift != nullptr) load_neighbours(shift, more);
#pragma unroll
  for (int k = 0; k < W; ++k) {
    v[k] = (v[k] - mean) * deviation;
    if (scale != nullptr) v[k] *= factor[k];
    if (shift != nullptr) v[k] += more[k];
  }
  store_neighbours(y, v);
}

template <typename T>
__global__ void row_norm_held_kernel(int64_t rows, unsigned n, bool rms, float epsilon, T* y, const T* x,
                                     float* statistics, const float* scale, const float* shift) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float share = 1 / static_cast<float>(n);
  float v[kPieces][kPiece], sum[1] = {0}, square[1] = {0};
  read_row(x + row * n, n, v);
  if (!rms) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      if (held_at(p) >= n) break;
#pragma unroll
      for (int k = 0; k < kPiece; ++k) sum[0] += v[p][k];
    }
    block_sum(sum);
  }
  const float mean = sum[0] * share;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    if (held_at(p) >= n) break;
#pragma unroll
    for (int k = 0; k < kPiece; ++k) square[0] += (v[p][k] - mean) * (v[p][k] - mean);
  }
  block_sum(square);
  const float deviation = 1 / sqrtf(square[0] * share + epsilon);
  if (threadIdx.x == 0) {
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = deviation;
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const unsigned e = held_at(p);
    if (e >= n) break;
    write_normal(y + row * n + e, v[p], mean, deviation, scale != nullptr ? scale + e : nullptr,
                 shift != nullptr ? shift + e : nullptr);
  }
}

/// Rows that are not plain, or too long to be kept.
template <int W, typename T>
__global__ void row_norm_kernel(Rows s, float epsilon, T* y, const T* x, float* statistics,
                                const float* scale, const float* shift) {
  const int64_t row = blockIdx.x, start = s.start(row);
  const unsigned n = s.elements(), first = threadIdx.x * W, step = blockDim.x * W;
  const float share = 1 / static_cast<float>(n);
  x += start;
  float v[W], sum[1] = {0};
  if (!s.rms) {
    for (unsigned e = first; e < n; e += step) {
      load_neighbours(x + s.at(e), v);
#pragma unroll
      for (int k = 0; k < W; ++k) sum[0] += v[k];
    }
    block_sum(sum);
  }
  const float mean = sum[0] * share;
  float square[1] = {0};
  for (unsigned e = first; e < n; e += step) {
    load_neighbours(x + s.at(e), v);
#pragma unroll
    for (int k = 0; k < W; ++k) square[0] += (v[k] - mean) * (v[k] - mean);
  }
  block_sum(square);
  const float deviation = 1 / sqrtf(square[0] * share + epsilon);
  if (threadIdx.x == 0) {
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = deviation;
  }
  for (unsigned e = first; e < n; e += step) {
    const int64_t c = s.first_channel(row) + s.channel(e);
    load_neighbours(x + s.at(e), v);
    write_normal(y + start + s.at(e), v, mean, deviation, scale != nullptr ? scale + c : nullptr,
                 shift != nullptr ? shift + c : nullptr);
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
    const float *scale = learned > 0 ? o[3] : nullptr, *shift = learned > 1 ? o[4] : nullptr;
    const Held held(s);
    if (held.fits && pieces(s, kPiece, y, x, scale, shift))
      launch(row_norm_held_kernel<T>, held.grid, held.block, l.stream, s.rows(), s.count(), s.rms, epsilon, y,
             x, o[2], scale, shift);
    else
      launch(pieces(s, 4, y, x, scale, shift) ? row_norm_kernel<4, T> : row_norm_kernel<1, T>,
             static_cast<unsigned>(s.rows()), s.threads(), l.stream, s, epsilon, y, x, o[2], scale, shift);
  }};
}

/// Columns are all channels, rows all (outer, space). Plain: a row has all of them. W neighbours are of one
/// group.
template <typename T, bool Plain>
struct Terms {
  Rows s;
  const T *x, *dy;
  const float* statistics;
  template <int W>
  __device__ auto columns(int64_t c) const {
    const int64_t group = Plain ? 0 : c / s.channels;
    return [=, *this](int64_t r) {
      const int64_t at = r * s.groups * s.channels + c, row = Plain ? r : r / s.space * s.groups + group;
      const float mean = statistics[2 * row], deviation = statistics[2 * row + 1];
      float d[W], v[W];
      load_neighbours(dy + at, d);
      load_neighbours(x + at, v);
      return [=](float(&out)[W][2]) {
#pragma unroll
        for (int k = 0; k < W; ++k) {
          out[k][0] = d[k] * (v[k] - mean) * deviation;
          out[k][1] = d[k];
        }
      };
    };
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
  const ColumnCut cut(s.outer * s.space, s.groups * s.channels, 2);
  return {[=](const Launch& l) {
            const std::size_t in = shifted ? 2 : 1;
            const T *x = operand<T>(l, in), *dy = operand<T>(l, in + 1);
            const auto sums = [&](const auto& terms) {
              column_sums<2>(cut, s.channels % cut.wide == 0 && contiguous_columns(cut, x, dy), terms,
                             WriteTerms{l.operands[0], shifted ? l.operands[1] : nullptr}, l.scratch,
                             l.stream);
            };
            if (s.plain())
              sums(Terms<T, true>{s, x, dy, l.operands[in + 2]});
            else
              sums(Terms<T, false>{s, x, dy, l.operands[in + 2]});
          },
          cut.scratch(2)};
}

/// d times the channels' scale.
template <int W>
__device__ void scale_by(const float* scale, float (&d)[W]) {
  float factor[W];
  load_neighbours(scale, factor);
#pragma unroll
  for (int k = 0; k < W; ++k) d[k] *= factor[k];
}
/// What a row's sums of d and d (v - mean) make of d at v.
struct RowSlope {
  float mean, deviation, sum, dot;
  __device__ RowSlope(float m, float one, const float (&sums)[2], float share, bool rms)
      : mean(m), deviation(one), sum(rms ? 0 : sums[0] * share), dot(sums[1] * share * one * one) {}
  template <int W>
  __device__ void operator()(const float (&v)[W], float (&d)[W]) const {
#pragma unroll
    for (int k = 0; k < W; ++k) d[k] = deviation * (d[k] - sum - (v[k] - mean) * dot);
  }
};
template <int W>
__device__ void add_terms(const float (&v)[W], const float (&d)[W], float mean, float (&sums)[2]) {
#pragma unroll
  for (int k = 0; k < W; ++k) {
    sums[0] += d[k];
    sums[1] += d[k] * (v[k] - mean);
  }
}

template <typename T>
__global__ void row_norm_backward_held_kernel(int64_t rows, unsigned n, bool rms, T* dx, const T* x,
                                              const T* dy, const float* statistics, const float* scale) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float mean = statistics[2 * row], deviation = statistics[2 * row + 1],
              share = 1 / static_cast<float>(n);
  float v[kPieces][kPiece], d[kPieces][kPiece], sums[2] = {0, 0};
  read_row(dy + row * n, n, d);
  read_row(x + row * n, n, v);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const unsigned e = held_at(p);
    if (e >= n) break;
    if (scale != nullptr) scale_by(scale + e, d[p]);
    add_terms(v[p], d[p], mean, sums);
  }
  block_sum(sums);
  const RowSlope slope(mean, deviation, sums, share, rms);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const unsigned e = held_at(p);
    if (e >= n) break;
    slope(v[p], d[p]);
    store_neighbours(dx + row * n + e, d[p]);
  }
}

template <int W, typename T>
__global__ void row_norm_backward_kernel(Rows s, T* dx, const T* x, const T* dy, const float* statistics,
                                         const float* scale) {
  const int64_t row = blockIdx.x, start = s.start(row);
  const unsigned n = s.elements(), first = threadIdx.x * W, step = blockDim.x * W;
  const float mean = statistics[2 * row], deviation = statistics[2 * row + 1],
              share = 1 / static_cast<float>(n);
  float sums[2] = {0, 0}, v[W], d[W];
  const auto read = [&](unsigned e) {
    load_neighbours(dy + start + s.at(e), d);
    load_neighbours(x + start + s.at(e), v);
    if (scale != nullptr) scale_by(scale + s.first_channel(row) + s.channel(e), d);
  };
  for (unsigned e = first; e < n; e += step) {
    read(e);
    add_terms(v, d, mean, sums);
  }
  block_sum(sums);
  const RowSlope slope(mean, deviation, sums, share, s.rms);
  for (unsigned e = first; e < n; e += step) {
    read(e);
    slope(v, d);
    store_neighbours(dx + start + s.at(e), d);
  }
}

template <typename T>
Prepared row_norm_backward(const Call& c) {
  const Rows s(c);
  const bool scaled = c.operands.size() > 4;
  return {[=](const Launch& l) {
    float* const* o = l.operands;
    T *dx = operand<T>(l, 0), *x = operand<T>(l, 1), *dy = operand<T>(l, 2);
    const float* scale = scaled ? o[4] : nullptr;
    const Held held(s);
    if (held.fits && pieces(s, kPiece, dx, x, dy, scale))
      launch(row_norm_backward_held_kernel<T>, held.grid, held.block, l.stream, s.rows(), s.count(), s.rms,
             dx, x, dy, o[3], scale);
    else
      launch(pieces(s, 4, dx, x, dy, scale) ? row_norm_backward_kernel<4, T> : row_norm_backward_kernel<1, T>,
             static_cast<unsigned>(s.rows()), s.threads(), l.stream, s, dx, x, dy, o[3], scale);
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

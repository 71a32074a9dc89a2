// SPDX-License-Identifier: Apache-2.0
// Numbers of 1 byte: inputs of products scaled and rounded to them, rows of the sum's dimension innermost, as
// cuBLASLt wants them.
#include "exec/device/cuda/fp8.h"

#ifndef TANDEM_CUDA_EMULATED
#include <cuda_fp8.h>
#endif

#include <type_traits>

#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

constexpr int kHistory = 16;

/// Of one operand, zero at first. A launch reads `scale` in all its blocks; the last of them to end writes.
struct Scale {
  unsigned peaks[kHistory];  ///< largest magnitudes of the last launches, as bits of floats
  unsigned next;             ///< where the launch under way has its own
  unsigned ended;            ///< blocks of the launch under way
  float scale;               ///< 0 before the first launch has ended: 1
};
constexpr int64_t kScaleFloats = sizeof(Scale) / sizeof(float);
/// Floats from one factor to the next: cuBLASLt 13 refuses one that is at no multiple of 16 bytes.
constexpr int64_t kBacksApart = 64;

/// What is quantised: to[row, i] = x[row, i], or x[i, row] when transposed, of `rows` x `k` elements, both
/// multiples of 16.
struct Input {
  int64_t rows, k;
  bool gradient, half, transposed;
  bool wide = false;  ///< x lies at a multiple of 16 bytes
  unsigned blocks = 0;
  const void* x = nullptr;
  uint8_t* to = nullptr;
  Scale* scale = nullptr;
  float* back = nullptr;          ///< gets 1 / scale
  uint8_t* as_it_lies = nullptr;  ///< of a transposed one: gets x, too, where asked for
};
__device__ inline float largest(const Input& o) { return o.gradient ? 57344.0F : 448.0F; }

/// The largest power of two by which a magnitude stays in range; 1 when nothing, or nothing finite, is known.
__device__ float scale_for(float magnitude, float largest) {
  if (magnitude == 0 || !finite(magnitude)) return 1;
  const uint32_t mine = to_bits(magnitude), top = to_bits(largest);
  int exponent = static_cast<int>(top >> 23) - static_cast<int>(mine >> 23);
  if ((mine & 0x7fffffU) > (top & 0x7fffffU)) --exponent;
  exponent = exponent > 100 ? 100 : exponent < -100 ? -100 : exponent;
  return from_bits(static_cast<uint32_t>(127 + exponent) << 23);
}

/// By the last block to end: the peak of this launch is known, which makes the scale of the next.
__device__ void advance(const Input& o) {
  Scale& s = *o.scale;
  const volatile unsigned* peaks = s.peaks;  // other blocks' writes: not from this processor's cache
  float most = 0;
#pragma unroll
  for (int i = 0; i < kHistory; ++i) most = fmaxf(most, from_bits(peaks[i]));
  s.scale = scale_for(most, largest(o));
  s.next = (s.next + 1) % kHistory;
  s.peaks[s.next] = 0;
  s.ended = 0;
}

template <bool Wide, int W, typename T>
__device__ void read(const T* p, float (&out)[W]) {
  if constexpr (Wide) {
    load_neighbours(p, out);
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = load(p + i);
  }
}

/// Four numbers of 1 byte, the first lowest.
template <typename F>
__device__ uint32_t packed(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  // It rounds and cuts off as store() does; infinity, which it would cut off, too, is made NaN before.
  const auto two = [](float low, float high) -> uint32_t {
    return __nv_cvt_float2_to_fp8x2({fmaf(low, 0.0F, low), fmaf(high, 0.0F, high)}, __NV_SATFINITE,
                                    std::is_same_v<F, E4m3> ? __NV_E4M3 : __NV_E5M2);
  };
  return two(a, b) | two(c, d) << 16;
#else
  F out[4];
  store(out, a);
  store(out + 1, b);
  store(out + 2, c);
  store(out + 3, d);
  return out[0].bits | static_cast<uint32_t>(out[1].bits) << 8 | static_cast<uint32_t>(out[2].bits) << 16 |
         static_cast<uint32_t>(out[3].bits) << 24;
#endif
}

constexpr int kAhead = 4;  ///< reads of a thread that are under way at once

/// Rows as they lie; returns the largest magnitude that the thread has seen.
template <typename F, typename T, bool Wide>
__device__ float straight(const Input& o, unsigned block, float factor) {
  constexpr int W = kWide<T>;
  const auto* x = static_cast<const T*>(o.x);
  const auto packs = static_cast<unsigned>(o.rows * o.k / W), step = o.blocks * kThreads;
  float most = 0;
  for (unsigned p = block * kThreads + threadIdx.x; p < packs; p += kAhead * step) {
    float v[kAhead][W];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (p + a * step < packs) read<Wide>(x + int64_t{p + a * step} * W, v[a]);
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (p + a * step >= packs) break;
      Neighbours<uint32_t, W / 4> out;
#pragma unroll
      for (int i = 0; i < W; ++i) {
        most = fmaxf(most, fabsf(v[a][i]));
        v[a][i] *= factor;
      }
#pragma unroll
      for (int i = 0; i < W; i += 4) out.v[i / 4] = packed<F>(v[a][i], v[a][i + 1], v[a][i + 2], v[a][i + 3]);
      *reinterpret_cast<Neighbours<uint32_t, W / 4>*>(o.to + int64_t{p + a * step} * W) = out;
    }
  }
  return most;
}

constexpr int kTile = 64, kFours = kTile / 4;
using Tile = uint32_t[kTile][kFours + 1];  ///< [row][four numbers of it]

__host__ __device__ inline unsigned tiles_along(int64_t elements) {
  return static_cast<unsigned>((elements + kTile - 1) / kTile);
}

/// Tile by tile: a thread reads four numbers of each of four rows of x and writes sixteen of one of `to`.
/// Both: and four of each of the rows that it reads as they lie.
template <typename F, typename T, bool Wide, bool Both = false>
__device__ float turned(const Input& o, unsigned block, float factor, Tile& tile) {
  const auto* x = static_cast<const T*>(o.x);
  const unsigned across = tiles_along(o.k), tiles = across * tiles_along(o.rows);
  const unsigned x_row = threadIdx.x / kFours, x_column = threadIdx.x % kFours * 4, row = threadIdx.x / 4,
                 four = threadIdx.x % 4 * 4;
  float most = 0;
  for (unsigned t = block; t < tiles; t += o.blocks) {
    const int64_t first_row = int64_t{t / across} * kTile, first = int64_t{t % across} * kTile;
    float v[4][4] = {};
    const int64_t r = first_row + x_column, i = first + x_row * 4;
    if (r < o.rows && i < o.k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) read<Wide>(x + (i + j) * o.rows + r, v[j]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        most = fmaxf(most, fabsf(v[j][c]));
        v[j][c] *= factor;
      }
    }
    if constexpr (Both) {
      if (r < o.rows && i < o.k) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          *reinterpret_cast<uint32_t*>(o.as_it_lies + (i + j) * o.rows + r) =
              packed<F>(v[j][0], v[j][1], v[j][2], v[j][3]);
      }
    }
    __syncthreads();  // the tile before has been read
#pragma unroll
    for (int c = 0; c < 4; ++c) tile[x_column + c][x_row] = packed<F>(v[0][c], v[1][c], v[2][c], v[3][c]);
    __syncthreads();
    if (first_row + row >= o.rows || first + four * 4 >= o.k) continue;
    Neighbours<uint32_t, 4> out;
#pragma unroll
    for (int j = 0; j < 4; ++j) out.v[j] = tile[row][four + j];
    *reinterpret_cast<Neighbours<uint32_t, 4>*>(o.to + (first_row + row) * o.k + first + four * 4) = out;
  }
  return most;
}

template <typename F, typename T, bool Wide>
__device__ float quantise(const Input& o, unsigned block, float factor, Tile& tile) {
  return o.transposed ? turned<F, T, Wide>(o, block, factor, tile) : straight<F, T, Wide>(o, block, factor);
}
template <typename F>
__device__ float quantise(const Input& o, unsigned block, float factor, Tile& tile) {
  if (o.half)
    return o.wide ? quantise<F, Bf16, true>(o, block, factor, tile)
                  : quantise<F, Bf16, false>(o, block, factor, tile);
  return o.wide ? quantise<F, float, true>(o, block, factor, tile)
                : quantise<F, float, false>(o, block, factor, tile);
}

__device__ inline float factor_of(const Input& o) { return o.scale->scale == 0 ? 1 : o.scale->scale; }

/// A block has seen magnitudes up to `most`.
__device__ void ended(const Input& o, unsigned block, float factor, float most) {
  if (threadIdx.x != 0) return;
  Scale& s = *o.scale;
  if (block == 0) *o.back = 1 / factor;
  // Magnitudes are ordered as their bits; the largest is the same in any order.
  atomicMax(&s.peaks[s.next], to_bits(most));
  __threadfence();
  if (atomicAdd(&s.ended, 1U) + 1 != o.blocks) return;
  __threadfence();
  advance(o);
}

/// Both inputs of a product, some blocks each, and then the bias, if there is one, a thread an
/// element.
__global__ void __launch_bounds__(kThreads, 4)
    quantise_kernel(Input a, Input b, int64_t n, Bf16* short_bias, const float* bias) {
  __shared__ Tile tile;
  unsigned block = blockIdx.x;
  if (block >= a.blocks + b.blocks) {
    const int64_t i = int64_t{block - a.blocks - b.blocks} * kThreads + threadIdx.x;
    if (i < n) store(short_bias + i, bias[i]);
    return;
  }
  const bool first = block < a.blocks;
  const Input o = first ? a : b;
  if (!first) block -= a.blocks;
  const float factor = factor_of(o);
  ended(o, block, factor,
        block_max(o.gradient ? quantise<E5m2>(o, block, factor, tile)
                             : quantise<E4m3>(o, block, factor, tile)));
}

constexpr unsigned kMostBlocks = 264;

/// Some blocks a matrix, those of blockIdx.y the matrix'.
__global__ void __launch_bounds__(kThreads, 4)
    renew_matrices_kernel(const CopiedMatrix* list, float* copies, const float* vector) {
  __shared__ Tile tile;
  const CopiedMatrix m = list[blockIdx.y];
  Input o{m.columns, m.rows, false, false, true};
  o.blocks = tiles_along(m.rows) * tiles_along(m.columns);
  if (o.blocks > kMostBlocks) o.blocks = kMostBlocks;
  if (blockIdx.x >= o.blocks) return;
  float* const at = copies + m.place;
  o.x = vector + m.first;
  o.wide = reinterpret_cast<uintptr_t>(o.x) % 16 == 0;
  o.as_it_lies = reinterpret_cast<uint8_t*>(at);
  o.to = reinterpret_cast<uint8_t*>(at + m.transposed());
  o.back = at + m.factor();
  o.scale = reinterpret_cast<Scale*>(at + m.scale());
  const float factor = factor_of(o);
  ended(o, blockIdx.x, factor,
        block_max(o.wide ? turned<E4m3, float, true, true>(o, blockIdx.x, factor, tile)
                         : turned<E4m3, float, false, true>(o, blockIdx.x, factor, tile)));
}

/// At most two blocks of each input on each of a large chip's 132 processors, so that all run at once and few
/// change the peak.
unsigned blocks_to_quantise(const Input& o) {
  const int64_t packs = o.rows * o.k / (o.half ? kWide<Bf16> : kWide<float>);
  const unsigned all = o.transposed ? tiles_along(o.rows) * tiles_along(o.k) : blocks_for(packs);
  return std::min(all, kMostBlocks);
}

bool is_gradient(const Call& c, unsigned operand) { return (c.gradients >> operand & 1U) != 0; }

/// One thread an element.
template <typename Y, typename A, typename B>
__global__ void product_kernel(int64_t m, int64_t n, int64_t k, bool adds, Y* c, const A* a, const B* b,
                               const Bf16* bias, const float* back_a, const float* back_b) {
  const int64_t i = global_index();
  if (i >= m * n) return;
  float sum = 0;
  for (int64_t t = 0; t < k; ++t) sum += load(a + i / n * k + t) * load(b + i % n * k + t);
  sum *= *back_a * *back_b;
  if (adds) sum += load(c + i);
  if (bias != nullptr) sum += load(bias + i % n);
  store(c + i, sum);
}

template <typename Y, typename A, typename B>
Prepared plain(const Call& call) {
  const int64_t m = call.shape[0], n = call.shape[1], k = call.shape[2];
  const bool adds = call.shape[5] != 0;
  return {[=](const Launch& l) {
    launch(product_kernel<Y, A, B>, blocks_for(m * n), kThreads, l.stream, m, n, k, adds, operand<Y>(l, 0),
           operand<A>(l, 1), operand<B>(l, 2), operand<Bf16>(l, 3), l.operands[4], l.operands[5]);
  }};
}
template <typename Y>
Prepared plain_of(const Call& c) {
  if (is_gradient(c, 1)) return plain<Y, E5m2, E4m3>(c);
  return is_gradient(c, 2) ? plain<Y, E4m3, E5m2>(c) : plain<Y, E4m3, E4m3>(c);
}

}  // namespace

bool multiplies_fp8(const Call& c) {
  const bool both = is_gradient(c, 1) && is_gradient(c, 2);
  return c.function == Function::gemm && (c.half(1) || c.half(2)) && !both && c.shape[0] % 16 == 0 &&
         c.shape[1] % 16 == 0 && c.shape[2] % 16 == 0;
}

Prepared fallback_fp8(const Call& call) {
  return call.half(0) ? plain_of<Bf16>(call) : plain_of<float>(call);
}

void renew_matrices(const CopiedRange& range, const float* vector, Stream stream) {
  static_assert(CopiedMatrix{}.words() - CopiedMatrix{}.scale() >= kScaleFloats);
  if (range.matrix_count == 0) return;
  launch(renew_matrices_kernel, dim3(kMostBlocks, static_cast<unsigned>(range.matrix_count)), kThreads,
         stream, reinterpret_cast<const CopiedMatrix*>(range.matrices), range.copies, vector);
}

Prepared multiply_fp8(const Call& call, const PrepareFp8& prepare) {
  const int64_t m = call.shape[0], n = call.shape[1], k = call.shape[2];
  const bool bias = call.operands.size() > 3, made_before = call.has_copy(2);
  const auto floats = [](int64_t bytes) { return (bytes + 255) / 256 * 64; };
  const int64_t at_b = floats(m * k), at_bias = at_b + (made_before ? 0 : floats(n * k)),
                at_backs = at_bias + floats(2 * n), rest = at_backs + 2 * kBacksApart;
  const auto input = [&](unsigned operand, int64_t rows, bool transposed) {
    Input o{rows, k, is_gradient(call, operand), call.half(operand), transposed};
    o.blocks = blocks_to_quantise(o);
    return o;
  };
  const Input input_a = input(1, m, call.shape[3] != 0);
  Input input_b = input(2, n, call.shape[4] == 0);
  if (made_before) input_b.blocks = 0;
  const CopiedMatrix matrix{0, n, k};
  const std::size_t copy = call.copy_of(2);
  const unsigned blocks = input_a.blocks + input_b.blocks + (bias ? blocks_for(n) : 0);
  const Prepared made = prepare(call);
  Prepared out;
  out.run = [=](const Launch& l) {
    float* const* o = l.operands;
    float *back_a = l.scratch + at_backs, *short_bias = bias ? l.scratch + at_bias : nullptr;
    float *b = l.scratch + at_b, *back_b = back_a + kBacksApart;
    if (made_before) {
      b = o[copy] + (input_b.transposed ? matrix.transposed() : 0);
      back_b = o[copy] + matrix.factor();
    }
    const auto placed = [&](Input in, unsigned operand, float* to, float* back) {
      in.x = o[operand];
      in.wide = wide_aligned(in.x);
      in.to = reinterpret_cast<uint8_t*>(to);
      in.scale = reinterpret_cast<Scale*>(l.kept) + (operand - 1);
      in.back = back;
      return in;
    };
    launch(quantise_kernel, blocks, kThreads, l.stream, placed(input_a, 1, l.scratch, back_a),
           placed(input_b, 2, b, back_b), n, reinterpret_cast<Bf16*>(short_bias), bias ? o[3] : nullptr);
    float* operands[] = {o[0], l.scratch, b, short_bias, back_a, back_b};
    made.run({operands, l.state, l.scratch + rest, l.stream, nullptr});
  };
  out.scratch = rest + made.scratch;
  out.kept = 2 * kScaleFloats;
  return out;
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// Numbers of 1 byte: inputs of products scaled and rounded to them, rows of the sum's dimension innermost, as
// cuBLASLt wants them.
#include "exec/device/cuda/fp8.h"

#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

constexpr int kHistory = 16;

/// Of one operand, zero at first.
struct Scale {
  unsigned peaks[kHistory];  ///< largest magnitudes of the last launches, as bits of floats
  unsigned next;             ///< where the launch under way has its own
  float scale;
};
constexpr int64_t kScaleFloats = sizeof(Scale) / sizeof(float);

/// The largest power of two by which a magnitude stays in range; 1 when nothing, or nothing finite, is known.
__device__ float scale_for(float magnitude, float largest) {
  if (magnitude == 0 || !finite(magnitude)) return 1;
  const uint32_t mine = to_bits(magnitude), top = to_bits(largest);
  int exponent = static_cast<int>(top >> 23) - static_cast<int>(mine >> 23);
  if ((mine & 0x7fffffU) > (top & 0x7fffffU)) --exponent;
  exponent = exponent > 100 ? 100 : exponent < -100 ? -100 : exponent;
  return from_bits(static_cast<uint32_t>(127 + exponent) << 23);
}

/// One thread an operand.
__global__ void rescale_kernel(Scale* scales, float* backs, float largest_a, float largest_b) {
  Scale& s = scales[threadIdx.x];
  float most = 0;
  for (int i = 0; i < kHistory; ++i) most = fmaxf(most, from_bits(s.peaks[i]));
  s.scale = scale_for(most, threadIdx.x == 0 ? largest_a : largest_b);
  backs[threadIdx.x * kBacksApart] = 1 / s.scale;
  s.next = (s.next + 1) % kHistory;
  s.peaks[s.next] = 0;
}

/// to[row, i] = x[row, i], or x[i, row] when transposed, of `rows` x `k` elements; a block a tile.
template <typename F, typename T>
__global__ void quantise_kernel(int64_t rows, int64_t k, bool transposed, F* to, const T* x, Scale* scale) {
  constexpr int kTile = 32, kStep = 8;
  __shared__ float tile[kTile][kTile + 1], peaks[kStep];
  const int64_t across = (k + kTile - 1) / kTile, row = blockIdx.x / across * kTile,
                column = blockIdx.x % across * kTile;
  const float factor = scale->scale;
  float most = 0;
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kStep) {
    const int64_t r = transposed ? column + i : row + i, c = (transposed ? row : column) + threadIdx.x;
    const bool inside = transposed ? r < k && c < rows : r < rows && c < k;
    const float v = inside ? load(x + r * (transposed ? rows : k) + c) : 0;
    most = fmaxf(most, fabsf(v));
    tile[i][threadIdx.x] = factor * v;
  }
  for (int d = kWarp / 2; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, d));
  if (threadIdx.x == 0) peaks[threadIdx.y] = most;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kStep) {
    const int64_t r = row + i, c = column + threadIdx.x;
    if (r < rows && c < k) store(to + r * k + c, transposed ? tile[threadIdx.x][i] : tile[i][threadIdx.x]);
  }
  if (threadIdx.x != 0 || threadIdx.y != 0) return;
  for (int i = 1; i < kStep; ++i) most = fmaxf(most, peaks[i]);
  // Magnitudes are ordered as their bits; the largest is the same in any order.
  atomicMax(&scale->peaks[scale->next], to_bits(most));
}

template <typename F, typename T>
void quantise(int64_t rows, int64_t k, bool transposed, void* to, const void* x, Scale* scale,
              Stream stream) {
  // All tiles in x: the grid's other dimensions end at 65,535.
  launch(quantise_kernel<F, T>, static_cast<unsigned>((k + 31) / 32 * ((rows + 31) / 32)), dim3(32, 8),
         stream, rows, k, transposed, static_cast<F*>(to), static_cast<const T*>(x), scale);
}
using Quantise = void (*)(int64_t, int64_t, bool, void*, const void*, Scale*, Stream);
Quantise quantise_of(bool gradient, bool half) {
  if (gradient) return half ? quantise<E5m2, Bf16> : quantise<E5m2, float>;
  return half ? quantise<E4m3, Bf16> : quantise<E4m3, float>;
}

bool is_gradient(const Call& c, unsigned operand) { return (c.gradients >> operand & 1U) != 0; }
float largest(bool gradient) { return gradient ? 57344.0F : 448.0F; }

/// One thread an element.
template <typename Y, typename A, typename B>
__global__ void product_kernel(int64_t m, int64_t n, int64_t k, bool adds, Y* c, const A* a, const B* b,
                               const Bf16* bias, const float* backs) {
  const int64_t i = global_index();
  if (i >= m * n) return;
  float sum = 0;
  for (int64_t t = 0; t < k; ++t) sum += load(a + i / n * k + t) * load(b + i % n * k + t);
  sum *= backs[0] * backs[kBacksApart];
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
           operand<A>(l, 1), operand<B>(l, 2), operand<Bf16>(l, 3), l.operands[4]);
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

Prepared multiply_fp8(const Call& call, const PrepareFp8& prepare) {
  const int64_t m = call.shape[0], n = call.shape[1], k = call.shape[2];
  const bool transpose_a = call.shape[3] != 0, transpose_b = call.shape[4] != 0;
  const bool bias = call.operands.size() > 3;
  const auto floats = [](int64_t bytes) { return (bytes + 255) / 256 * 64; };
  const int64_t at_b = floats(m * k), at_bias = at_b + floats(n * k), at_backs = at_bias + floats(2 * n),
                rest = at_backs + 2 * kBacksApart;
  const Quantise to_a = quantise_of(is_gradient(call, 1), call.half(1)),
                 to_b = quantise_of(is_gradient(call, 2), call.half(2));
  const float most_a = largest(is_gradient(call, 1)), most_b = largest(is_gradient(call, 2));
  const Prepared made = prepare(call);
  Prepared out;
  out.run = [=](const Launch& l) {
    float* const* o = l.operands;
    auto* scales = reinterpret_cast<Scale*>(l.kept);
    float *backs = l.scratch + at_backs, *short_copy = l.scratch + at_bias;
    launch(rescale_kernel, 1, 2, l.stream, scales, backs, most_a, most_b);
    to_a(m, k, transpose_a, l.scratch, o[1], scales, l.stream);
    to_b(n, k, !transpose_b, l.scratch + at_b, o[2], scales + 1, l.stream);
    if (bias) narrow(short_copy, o[3], Precision::bf16, n, l.stream);
    float* operands[] = {o[0], l.scratch, l.scratch + at_b, bias ? short_copy : nullptr, backs};
    made.run({operands, l.state, l.scratch + rest, l.stream, nullptr});
  };
  out.scratch = rest + made.scratch;
  out.kept = 2 * kScaleFloats;
  return out;
}

}  // namespace tandem::exec::cuda

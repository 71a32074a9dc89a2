// SPDX-License-Identifier: Apache-2.0
// A warp has 16 rows of a tile: of queries, or of keys where their gradients are gathered. Its left operands
// and sums stay in registers; the right operands, which all warps of a block share, in shared memory.
//
// Where a lane's numbers lie is that of mma.m16n8k8 (PTX ISA, "Matrix Fragments for mma.m16n8k8", .tf32):
// with g = lane / 4 and t = lane % 4 the left operand is rows g and g + 8 at columns t and t + 4, the right
// one rows t and t + 4 of column g, the sums rows g and g + 8 at columns 2t and 2t + 1.
#include "exec/device/cuda/attention_tiles.h"
#include "exec/device/cuda/product_attention.h"
#include "exec/device/cuda/storage.h"
#include "exec/device/cuda/tensor_attention.h"

namespace tandem::exec::cuda {

namespace {

constexpr int kWarps = 4, kBlock = kWarps * kWarp;
constexpr int kWarpRows = 16, kBlockRows = kWarps * kWarpRows;
constexpr int kWidth = kMostOnTensorCores;
constexpr int kStep = 8;            ///< columns of an operand that one instruction takes, and of its result
constexpr int kPitch = kWidth + 4;  ///< rows begin in different banks
constexpr int kKeys = 64,
              kOther = 32;  ///< rows in shared memory at a time: forward; backward, which has two sums

/// Left operands of 16 rows, sums of 16 rows and N columns.
using Left = uint32_t[kWidth / kStep][4];
template <int N>
using Sums = float[N / kStep][4];
template <int N>
using Shared = float[N][kPitch];

__device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ int group() { return lane() / 4; }
__device__ int turn() { return lane() % 4; }
/// The first of the warp's rows in the block's tile.
__device__ int warp_row() { return static_cast<int>(threadIdx.x) / kWarp * kWarpRows; }
/// Of a sum's element k: its row of the warp's, its column of eight.
__device__ int row_of(int k) { return group() + k / 2 * 8; }
__device__ int column_of(int k) { return 2 * turn() + k % 2; }

/// The 10 bits of mantissa that are multiplied.
__device__ uint32_t tf32(float x) {
#ifdef TANDEM_CUDA_EMULATED
  return emulated::tf32(x);
#else
  uint32_t out = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
#endif
  return out;
#endif
}

/// sum += a b.
__device__ void multiply(float (&sum)[4], const uint32_t (&a)[4], float first, float second) {
  const uint32_t b[2] = {__float_as_uint(first), __float_as_uint(second)};
#ifdef TANDEM_CUDA_EMULATED
  emulated::mma_tf32(sum, a, b);
#elif __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// Vectors of a head, `row` elements apart, from the tile's first on. Beyond `valid` rows and `size` elements
/// all is 0.
struct Vectors {
  const float* at;
  int64_t row, valid, size;
};

__device__ void load_left(Left& to, const Vectors& from, float factor) {
  for (int s = 0; s < kWidth / kStep; ++s) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int r = warp_row() + group() + k % 2 * 8, d = s * kStep + turn() + k / 2 * 4;
      to[s][k] = r < from.valid && d < from.size ? tf32(factor * from.at[r * from.row + d]) : 0;
    }
  }
}

template <int N>
__device__ void load_shared(Shared<N>& to, const Vectors& from, float factor) {
  constexpr int kFour = kWide<float>, kPacks = kWidth / kFour;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < N * kPacks; i += kBlock) {
    const int r = i / kPacks, d = i % kPacks * kFour;
    Pack<float> v{};
    if (r < from.valid && d < from.size)
      v = *reinterpret_cast<const Pack<float>*>(from.at + r * from.row + d);
#pragma unroll
    for (float& x : v.v) x = __uint_as_float(tf32(factor * x));
    *reinterpret_cast<Pack<float>*>(&to[r][d]) = v;
  }
}

/// sums += a b^T.
template <int N>
__device__ void multiply_rows(Sums<N>& sums, const Left& a, const Shared<N>& b) {
#pragma unroll
  for (int n = 0; n < N / kStep; ++n) {
#pragma unroll
    for (int s = 0; s < kWidth / kStep; ++s) {
      const float* const row = &b[n * kStep + group()][s * kStep + turn()];
      multiply(sums[n], a[s], row[0], row[4]);
    }
  }
}

/// sums += w b. Sums become a left operand where they lie: columns 2t and 2t + 1 of eight stand for t and t +
/// 4, and so do these rows of b.
template <int N>
__device__ void weigh(Sums<kWidth>& sums, const Sums<N>& w, const Shared<N>& b) {
#pragma unroll
  for (int j = 0; j < N / kStep; ++j) {
    const uint32_t a[4] = {tf32(w[j][0]), tf32(w[j][2]), tf32(w[j][1]), tf32(w[j][3])};
    const int row = j * kStep + 2 * turn();
#pragma unroll
    for (int n = 0; n < kWidth / kStep; ++n)
      multiply(sums[n], a, b[row][n * kStep + group()], b[row + 1][n * kStep + group()]);
  }
}

/// factor[k / 2] times the sums, two elements at once.
__device__ void store_rows(float* to, int64_t row, int64_t valid, int64_t size, const Sums<kWidth>& sums,
                           const float (&factor)[2]) {
#pragma unroll
  for (int n = 0; n < kWidth / kStep; ++n) {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      const int64_t r = warp_row() + row_of(k), d = n * kStep + column_of(k);
      if (r < valid && d < size)
        *reinterpret_cast<Neighbours<float, 2>*>(to + r * row + d) = {factor[k / 2] * sums[n][k],
                                                                      factor[k / 2] * sums[n][k + 1]};
    }
  }
}

/// A block's rows of a head.
struct Place {
  int64_t sample, head, first, valid;
  __device__ Place(const TilePlace& place, int64_t begin, int64_t rows)
      : sample(place.sample),
        head(place.head),
        first(begin),
        valid(rows - begin < kBlockRows ? rows - begin : kBlockRows) {}
};
__device__ Place queries_at(const AttentionShape& a) {
  const TilePlace place(a.batch, a.heads);
  return {place, first_query<kBlockRows>(a, place.tile), a.query};
}
__device__ Place keys_at(const AttentionShape& a) {
  const TilePlace place(a.batch, a.kv_heads);
  return {place, place.tile * kBlockRows, a.key};
}
dim3 grid(int64_t rows, int64_t heads, int64_t batch) {
  return tile_grid((rows + kBlockRows - 1) / kBlockRows, heads, batch);
}

__device__ Vectors queries_of(const AttentionShape& a, const float* q, int64_t b, int64_t h, int64_t first) {
  return {q + a.q(b, h) + first * a.q_row, a.q_row, a.query - first, a.size};
}
__device__ Vectors outputs_of(const AttentionShape& a, const float* out, int64_t b, int64_t h,
                              int64_t first) {
  return {out + a.out(b, h) + first * a.out_row(), a.out_row(), a.query - first, a.size};
}
__device__ Vectors keys_of(const AttentionShape& a, const float* head, int64_t first) {
  return {head + first * a.kv_row, a.kv_row, a.key - first, a.size};
}

__global__ void __launch_bounds__(kBlock) forward_kernel(AttentionShape a, float* out, const float* q,
                                                         const float* k, const float* v, float* log_sums) {
  __shared__ __align__(16) Shared<kKeys> keys;
  __shared__ __align__(16) Shared<kKeys> values;
  const Place at = queries_at(a);
  const int64_t b = at.sample, h = at.head, kv = a.kv_head(h);
  Left queries;
  load_left(queries, queries_of(a, q, b, h, at.first), a.scale);
  float top[2] = {kLowest, kLowest}, sum[2] = {};
  Sums<kWidth> acc = {};
  const int64_t end = a.seen(at.first + at.valid - 1);
  for (int64_t begin = a.unseen(at.first) / kKeys * kKeys; begin < end; begin += kKeys) {
    __syncthreads();
    load_shared<kKeys>(keys, keys_of(a, k + a.k(b, kv), begin), 1);
    load_shared<kKeys>(values, keys_of(a, v + a.v(b, kv), begin), 1);
    __syncthreads();
    Sums<kKeys> s = {};
    multiply_rows<kKeys>(s, queries, keys);
#pragma unroll
    for (int i = 0; i < 2; ++i) {  // rows g and g + 8
      const Seen seen = seen_by(a, at.first + warp_row() + row_of(2 * i), begin);
      float most = top[i], part = 0;
#pragma unroll
      for (int n = 0; n < kKeys / kStep; ++n) {
#pragma unroll
        for (int c = 2 * i; c < 2 * i + 2; ++c) {
          if (seen.has(n * kStep + column_of(c))) most = fmaxf(most, s[n][c]);
        }
      }
      most = row_max<4>(most);
      const float correction = exp2f(kLog2E * (top[i] - most)), shift = kLog2E * most;
      top[i] = most;
#pragma unroll
      for (int n = 0; n < kKeys / kStep; ++n) {
#pragma unroll
        for (int c = 2 * i; c < 2 * i + 2; ++c) {
          s[n][c] = seen.has(n * kStep + column_of(c)) ? exp2f(kLog2E * s[n][c] - shift) : 0;
          part += s[n][c];
        }
      }
      sum[i] = sum[i] * correction + row_sum<4>(part);
#pragma unroll
      for (int n = 0; n < kWidth / kStep; ++n) {
        acc[n][2 * i] *= correction;
        acc[n][2 * i + 1] *= correction;
      }
    }
    weigh<kKeys>(acc, s, values);
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t row = warp_row() + row_of(2 * i);
    if (turn() == 0 && row < at.valid) log_sums[a.row(b, h) + at.first + row] = top[i] + logf(sum[i]);
  }
  store_rows(out + a.out(b, h) + at.first * a.out_row(), a.out_row(), at.valid, a.size, acc,
             {1 / sum[0], 1 / sum[1]});
}

/// Of a score and of dout v^T: the probability and the gradient of the score.
__device__ void score_gradient(const Query& query, int key, float& s, float& d) {
  s = query.probability(key, s);
  d = s * (d - query.inner);
}

/// dq = scale dS k.
__global__ void __launch_bounds__(kBlock)
    dq_kernel(AttentionShape a, float* dq, const float* q, const float* k, const float* v, const float* dout,
              const float* log_sums, const float* inner) {
  __shared__ __align__(16) Shared<kOther> keys;
  __shared__ __align__(16) Shared<kOther> values;
  const Place at = queries_at(a);
  const int64_t b = at.sample, h = at.head, kv = a.kv_head(h);
  Left queries, douts;
  load_left(queries, queries_of(a, q, b, h, at.first), a.scale);
  load_left(douts, outputs_of(a, dout, b, h, at.first), 1);
  Sums<kWidth> acc = {};
  const int64_t end = a.seen(at.first + at.valid - 1);
  for (int64_t begin = a.unseen(at.first) / kOther * kOther; begin < end; begin += kOther) {
    __syncthreads();
    load_shared<kOther>(keys, keys_of(a, k + a.k(b, kv), begin), 1);
    load_shared<kOther>(values, keys_of(a, v + a.v(b, kv), begin), 1);
    __syncthreads();
    Sums<kOther> s = {}, d = {};
    multiply_rows<kOther>(s, queries, keys);
    multiply_rows<kOther>(d, douts, values);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Query query = query_of(a, b, h, at.first + warp_row() + row_of(2 * i), begin, log_sums, inner);
#pragma unroll
      for (int n = 0; n < kOther / kStep; ++n) {
        for (int c = 2 * i; c < 2 * i + 2; ++c)
          score_gradient(query, n * kStep + column_of(c), s[n][c], d[n][c]);
      }
    }
    weigh<kOther>(acc, d, keys);
  }
  store_rows(dq + a.q(b, h) + at.first * a.q_row, a.q_row, at.valid, a.size, acc, {a.scale, a.scale});
}

/// dv = P^T dout, dk = dS^T (scale q), summed over the heads that share them.
__global__ void __launch_bounds__(kBlock)
    dkv_kernel(AttentionShape a, float* dk, float* dv, const float* q, const float* k, const float* v,
               const float* dout, const float* log_sums, const float* inner) {
  __shared__ __align__(16) Shared<kOther> queries;
  __shared__ __align__(16) Shared<kOther> douts;
  __shared__ Query known[kOther];
  const Place at = keys_at(a);
  const int64_t b = at.sample, kv = at.head, begin = at.first, heads = a.heads / a.kv_heads;
  Left keys, values;
  load_left(keys, keys_of(a, k + a.k(b, kv), begin), 1);
  load_left(values, keys_of(a, v + a.v(b, kv), begin), 1);
  Sums<kWidth> to_k = {}, to_v = {};
  for (int64_t h = kv * heads; h < (kv + 1) * heads; ++h) {
    for (int64_t first = 0; first < a.query; first += kOther) {
      const int64_t last = (first + kOther < a.query ? first + kOther : a.query) - 1;
      if (a.seen(last) <= begin) continue;  // none of them sees these keys, or does any more
      if (a.unseen(first) >= begin + at.valid) break;
      __syncthreads();
      load_shared<kOther>(queries, queries_of(a, q, b, h, first), a.scale);
      load_shared<kOther>(douts, outputs_of(a, dout, b, h, first), 1);
      if (threadIdx.x < kOther)
        known[threadIdx.x] = query_of(a, b, h, first + threadIdx.x, begin, log_sums, inner);
      __syncthreads();
      Sums<kOther> s = {}, d = {};
      multiply_rows<kOther>(s, keys, queries);
      multiply_rows<kOther>(d, values, douts);
#pragma unroll
      for (int n = 0; n < kOther / kStep; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c)
          score_gradient(known[n * kStep + column_of(c)], warp_row() + row_of(c), s[n][c], d[n][c]);
      }
      weigh<kOther>(to_v, s, douts);
      weigh<kOther>(to_k, d, queries);
    }
  }
  store_rows(dk + a.k(b, kv) + begin * a.kv_row, a.kv_row, at.valid, a.size, to_k, {1, 1});
  store_rows(dv + a.v(b, kv) + begin * a.kv_row, a.kv_row, at.valid, a.size, to_v, {1, 1});
}

void run_forward(const AttentionShape& a, const Launch& l) {
  float* const* o = l.operands;
  launch(forward_kernel, grid(a.query, a.heads, a.batch), kBlock, l.stream, a, o[0], o[1], o[2], o[3], o[4]);
}
void run_backward(const AttentionShape& a, const Launch& l) {
  float* const* o = l.operands;
  inner_products(a, l.scratch, o[6], o[7], l.stream);
  launch(dq_kernel, grid(a.query, a.heads, a.batch), kBlock, l.stream, a, o[0], o[3], o[4], o[5], o[7], o[8],
         l.scratch);
  launch(dkv_kernel, grid(a.key, a.kv_heads, a.batch), kBlock, l.stream, a, o[1], o[2], o[3], o[4], o[5],
         o[7], o[8], l.scratch);
}

}  // namespace

bool fits_tensor_cores(const AttentionShape& a) {
  return a.in_steps_of(kWide<float>) && a.size <= kMostOnTensorCores && a.buckets == 0 &&
         a.heads % a.kv_heads == 0;
}

Prepared attention_on_tensor_cores(const Call& call) {
  const AttentionShape a(call);
  const bool backward = call.function == Function::attention_backward;
  const Prepared own = own_kernels()[static_cast<std::size_t>(call.function)].plain(call);
  return {[=, count = call.operands.size()](const Launch& l) {
            if (!std::all_of(l.operands, l.operands + count, wide_aligned)) return own.run(l);
            backward ? run_backward(a, l) : run_forward(a, l);
          },
          own.scratch};
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// Attention that never stores its scores (Dao et al. 2022): tiles of queries and keys in shared memory,
// softmax as the keys pass by; the backward pass makes the scores again from their log sums. No atomics: one
// pass gathers dq, another dk and dv. Head sizes above 128 take plain kernels, a warp a row.
#include <cmath>

#include "exec/device/cuda/attention_tiles.h"
#include "exec/device/cuda/product_attention.h"
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

constexpr float kLowest = -1e30F;
constexpr int kSide = 16;  ///< threads of a block: kSide x kSide

/// Learned scores of distances, {bucket, head}; without a table there are none.
struct Bias {
  const float* table = nullptr;
  DistanceBuckets buckets;
  Bias(const AttentionShape& a, const float* scores) : table(a.buckets > 0 ? scores : nullptr) {
    if (table != nullptr) buckets = DistanceBuckets(a);
  }
  __device__ float of(const AttentionShape& a, int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (table == nullptr || i >= a.query || j >= a.key) return 0;
    return table[buckets.bucket(a.position(i), j) * a.heads + h] + (a.apart(b, i, j) ? kApart : 0);
  }
};

/// Rows of a head in shared memory, padded so that rows begin in different banks.
template <int D>
constexpr int kPitch = D + 4;

/// rows x D of `from`, zeros beyond `valid` rows and `size` columns.
template <int D, int R, typename T>
__device__ void load_tile(float (&to)[R][kPitch<D>], const T* from, int64_t row, int64_t valid, int64_t size,
                          float factor) {
  for (int i = static_cast<int>(threadIdx.x); i < R * D; i += kSide * kSide) {
    const int r = i / D, d = i % D;
    to[r][d] = r < valid && d < size ? factor * load(from + r * row + d) : 0;
  }
}

/// s[i][j] = a[row i] . b[row j] for this thread's rows y + 16 i of a and x + 16 j of b.
template <int D, int A, int B>
__device__ void dots(const float (&a)[A][kPitch<D>], const float (&b)[B][kPitch<D>],
                     float (&s)[A / kSide][B / kSide]) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  for (int i = 0; i < A / kSide; ++i) {
    for (int j = 0; j < B / kSide; ++j) s[i][j] = 0;
  }
#pragma unroll 4
  for (int d = 0; d < D; d += 4) {
    float4 p[A / kSide], q[B / kSide];
#pragma unroll
    for (int i = 0; i < A / kSide; ++i) p[i] = *reinterpret_cast<const float4*>(&a[y + i * kSide][d]);
#pragma unroll
    for (int j = 0; j < B / kSide; ++j) q[j] = *reinterpret_cast<const float4*>(&b[x + j * kSide][d]);
#pragma unroll
    for (int i = 0; i < A / kSide; ++i) {
#pragma unroll
      for (int j = 0; j < B / kSide; ++j)
        s[i][j] += p[i].x * q[j].x + p[i].y * q[j].y + p[i].z * q[j].z + p[i].w * q[j].w;
    }
  }
}

/// acc[i][c] += sum over j of w[row i][j] v[j][column x + 16 c].
template <int D, int R, int K>
__device__ void weigh(const float (&w)[R][K + 1], const float (&v)[K][kPitch<D>],
                      float (&acc)[R / kSide][D / kSide]) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
#pragma unroll 4
  for (int j = 0; j < K; ++j) {
    float value[D / kSide];
#pragma unroll
    for (int c = 0; c < D / kSide; ++c) value[c] = v[j][x + c * kSide];
#pragma unroll
    for (int i = 0; i < R / kSide; ++i) {
      const float weight = w[y + i * kSide][j];
#pragma unroll
      for (int c = 0; c < D / kSide; ++c) acc[i][c] += weight * value[c];
    }
  }
}

template <int D, int R, typename T>
__device__ void store_tile(T* to, int64_t row, int64_t valid, int64_t size,
                           const float (&acc)[R / kSide][D / kSide]) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  for (int i = 0; i < R / kSide; ++i) {
    for (int c = 0; c < D / kSide; ++c) {
      if (y + i * kSide < valid && x + c * kSide < size)
        store(to + (y + i * kSide) * row + x + c * kSide, acc[i][c]);
    }
  }
}

/// Grid: (tiles of queries of every sample, heads).
template <int D, int R, int K, typename T>
__global__ void __launch_bounds__(kSide* kSide)
    attention_kernel(AttentionShape a, Bias bias, T* out, const T* q, const T* k, const T* v,
                     float* log_sums) {
  __shared__ __align__(16) float queries[R][kPitch<D>];
  __shared__ __align__(16) float keys[K][kPitch<D>];  // then the values
  __shared__ float p[R][K + 1];
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const TilePlace place(a.batch);
  const int64_t b = place.sample, h = blockIdx.y, first = place.tile * R;
  const int64_t rows = a.query - first < R ? a.query - first : R, kv = a.kv_head(h);
  float top[R / kSide], sum[R / kSide], acc[R / kSide][D / kSide] = {};
  for (int i = 0; i < R / kSide; ++i) {
    top[i] = kLowest;
    sum[i] = 0;
  }
  load_tile<D, R>(queries, q + a.q(b, h) + first * a.q_row, a.q_row, rows, a.size, a.scale);
  const int64_t end = a.seen(first + rows - 1);
  for (int64_t begin = a.unseen(first) / K * K; begin < end; begin += K) {
    __syncthreads();
    load_tile<D, K>(keys, k + a.k(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, 1);
    __syncthreads();
    float s[R / kSide][K / kSide];
    dots<D, R, K>(queries, keys, s);
    for (int i = 0; i < R / kSide; ++i) {
      const int64_t query = first + y + i * kSide, n = a.seen(query) - begin, from = a.unseen(query) - begin;
      const auto sees = [&](int j) { return x + j * kSide >= from && x + j * kSide < n; };
      float most = top[i];
      for (int j = 0; j < K / kSide; ++j) {
        if (!sees(j)) continue;
        s[i][j] += bias.of(a, b, h, query, begin + x + j * kSide);
        most = fmaxf(most, s[i][j]);
      }
      most = row_max<kSide>(most);
      const float correction = expf(top[i] - most);
      top[i] = most;
      float part = 0;
      for (int j = 0; j < K / kSide; ++j) {
        const float e = sees(j) ? expf(s[i][j] - most) : 0;
        p[y + i * kSide][x + j * kSide] = e;
        part += e;
      }
      sum[i] = sum[i] * correction + row_sum<kSide>(part);
      for (int c = 0; c < D / kSide; ++c) acc[i][c] *= correction;
    }
    __syncthreads();
    load_tile<D, K>(keys, v + a.v(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, 1);
    __syncthreads();
    weigh<D, R, K>(p, keys, acc);
  }
  for (int i = 0; i < R / kSide; ++i) {
    for (int c = 0; c < D / kSide; ++c) acc[i][c] /= sum[i];
    if (x == 0 && y + i * kSide < rows) log_sums[a.row(b, h) + first + y + i * kSide] = top[i] + logf(sum[i]);
  }
  store_tile<D, R>(out + a.out(b, h) + first * a.out_row(), a.out_row(), rows, a.size, acc);
}

/// For each query and head: dout . out. One warp each.
template <typename T>
__global__ void inner_kernel(AttentionShape a, int64_t count, float* inner, const T* out, const T* dout) {
  const int64_t i = global_index() / kWarp;
  if (i >= count) return;
  const int64_t h = i / a.query % a.heads, b = i / a.query / a.heads;
  const int64_t at = a.out(b, h) + i % a.query * a.out_row();
  float dot = 0;
  for (int64_t d = threadIdx.x % kWarp; d < a.size; d += kWarp)
    dot += load(out + at + d) * load(dout + at + d);
  for (int d = kWarp / 2; d > 0; d /= 2) dot += __shfl_xor_sync(0xffffffffU, dot, d);
  if (threadIdx.x % kWarp == 0) inner[a.row(b, h) + i % a.query] = dot;
}

/// Of a tile of scores s and of dout v^T: probabilities and the gradient of the scores.
template <int R, int K>
__device__ void score_gradients(const AttentionShape& a, const Bias& bias, int64_t b, int64_t h,
                                int64_t first, int64_t begin, const float* log_sums, const float* inner,
                                float (&s)[R / kSide][K / kSide], float (&d)[R / kSide][K / kSide]) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  for (int i = 0; i < R / kSide; ++i) {
    const int64_t query = first + y + i * kSide;
    const bool valid = query < a.query;
    const int64_t n = valid ? a.seen(query) - begin : 0, from = a.unseen(query) - begin;
    const float log_sum = valid ? log_sums[a.row(b, h) + query] : 0,
                in = valid ? inner[a.row(b, h) + query] : 0;
    for (int j = 0; j < K / kSide; ++j) {
      const int64_t key = x + j * kSide;
      s[i][j] = key >= from && key < n ? expf(s[i][j] + bias.of(a, b, h, query, begin + key) - log_sum) : 0;
      d[i][j] = s[i][j] * (d[i][j] - in);
    }
  }
}

/// dq = scale dS k. Grid as forward.
template <int D, int R, int K, typename T>
__global__ void __launch_bounds__(kSide* kSide)
    attention_dq_kernel(AttentionShape a, Bias bias, T* dq, const T* q, const T* k, const T* v, const T* dout,
                        const float* log_sums, const float* inner) {
  __shared__ __align__(16) float queries[R][kPitch<D>];
  __shared__ __align__(16) float douts[R][kPitch<D>];
  __shared__ __align__(16) float keys[K][kPitch<D>];  // values first, then the keys
  __shared__ float ds[R][K + 1];
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const TilePlace place(a.batch);
  const int64_t b = place.sample, h = blockIdx.y, first = place.tile * R;
  const int64_t rows = a.query - first < R ? a.query - first : R, kv = a.kv_head(h);
  float acc[R / kSide][D / kSide] = {};
  load_tile<D, R>(queries, q + a.q(b, h) + first * a.q_row, a.q_row, rows, a.size, a.scale);
  load_tile<D, R>(douts, dout + a.out(b, h) + first * a.out_row(), a.out_row(), rows, a.size, 1);
  const int64_t end = a.seen(first + rows - 1);
  for (int64_t begin = a.unseen(first) / K * K; begin < end; begin += K) {
    float s[R / kSide][K / kSide], d[R / kSide][K / kSide];
    __syncthreads();
    load_tile<D, K>(keys, v + a.v(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, 1);
    __syncthreads();
    dots<D, R, K>(douts, keys, d);
    __syncthreads();
    load_tile<D, K>(keys, k + a.k(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, 1);
    __syncthreads();
    dots<D, R, K>(queries, keys, s);
    score_gradients<R, K>(a, bias, b, h, first, begin, log_sums, inner, s, d);
    for (int i = 0; i < R / kSide; ++i) {
      for (int j = 0; j < K / kSide; ++j) ds[y + i * kSide][x + j * kSide] = a.scale * d[i][j];
    }
    __syncthreads();
    weigh<D, R, K>(ds, keys, acc);
  }
  store_tile<D, R>(dq + a.q(b, h) + first * a.q_row, a.q_row, rows, a.size, acc);
}

/// dv = P^T dout, dk = dS^T q, summed over the heads that share them. Grid: (tiles of keys, kv heads, batch).
template <int D, int R, int K, typename T>
__global__ void __launch_bounds__(kSide* kSide)
    attention_dkv_kernel(AttentionShape a, Bias bias, T* dk, T* dv, const T* q, const T* k, const T* v,
                         const T* dout, const float* log_sums, const float* inner) {
  __shared__ __align__(16) float keys[K][kPitch<D>];
  __shared__ __align__(16) float values[K][kPitch<D>];
  __shared__ __align__(16) float rows[R][kPitch<D>];  // queries, then dout
  __shared__ float weights[K][R + 1];                 // transposed
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const TilePlace place(a.batch);
  const int64_t b = place.sample, kv = blockIdx.y, begin = place.tile * K;
  const int64_t valid = a.key - begin < K ? a.key - begin : K, group = a.heads / a.kv_heads;
  float to_k[K / kSide][D / kSide] = {}, to_v[K / kSide][D / kSide] = {};
  load_tile<D, K>(keys, k + a.k(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, 1);
  load_tile<D, K>(values, v + a.v(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, 1);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (int64_t first = 0; first < a.query; first += R) {
      const int64_t queries = a.query - first < R ? a.query - first : R;
      if (a.seen(first + queries - 1) <= begin) continue;  // none of them sees these keys, or does any more
      if (a.unseen(first) >= begin + valid) break;
      float s[R / kSide][K / kSide], d[R / kSide][K / kSide];
      __syncthreads();
      load_tile<D, R>(rows, q + a.q(b, h) + first * a.q_row, a.q_row, queries, a.size, a.scale);
      __syncthreads();
      dots<D, R, K>(rows, keys, s);
      __syncthreads();
      load_tile<D, R>(rows, dout + a.out(b, h) + first * a.out_row(), a.out_row(), queries, a.size, 1);
      __syncthreads();
      dots<D, R, K>(rows, values, d);
      score_gradients<R, K>(a, bias, b, h, first, begin, log_sums, inner, s, d);
      for (int i = 0; i < R / kSide; ++i) {
        for (int j = 0; j < K / kSide; ++j) weights[x + j * kSide][y + i * kSide] = s[i][j];
      }
      __syncthreads();
      weigh<D, K, R>(weights, rows, to_v);
      __syncthreads();
      for (int i = 0; i < R / kSide; ++i) {
        for (int j = 0; j < K / kSide; ++j) weights[x + j * kSide][y + i * kSide] = d[i][j];
      }
      // Scaled already, as the scores' gradient wants it.
      load_tile<D, R>(rows, q + a.q(b, h) + first * a.q_row, a.q_row, queries, a.size, a.scale);
      __syncthreads();
      weigh<D, K, R>(weights, rows, to_k);
    }
  }
  store_tile<D, K>(dk + a.k(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, to_k);
  store_tile<D, K>(dv + a.v(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, to_v);
}

// ---- any head size: a warp a row, accumulating in place ----
template <typename T>
__device__ float warp_dot(const T* a, const T* b, int64_t n) {
  float dot = 0;
  for (int64_t d = threadIdx.x; d < n; d += kWarp) dot += load(a + d) * load(b + d);
  for (int d = kWarp / 2; d > 0; d /= 2) dot += __shfl_xor_sync(0xffffffffU, dot, d);
  return dot;
}

__global__ void plain_kernel(AttentionShape a, Bias bias, float* out, const float* q, const float* k,
                             const float* v, float* log_sums) {
  const TilePlace place(a.batch);
  const int64_t i = place.tile, h = blockIdx.y, b = place.sample, kv = a.kv_head(h);
  const float* mine = q + a.q(b, h) + i * a.q_row;
  float* to = out + a.out(b, h) + i * a.out_row();
  float top = kLowest, sum = 0;
  for (int64_t d = threadIdx.x; d < a.size; d += kWarp) to[d] = 0;
  for (int64_t j = a.unseen(i); j < a.seen(i); ++j) {
    const float s = a.scale * warp_dot(mine, k + a.k(b, kv) + j * a.kv_row, a.size) + bias.of(a, b, h, i, j),
                most = fmaxf(top, s);
    const float correction = expf(top - most), e = expf(s - most);
    const float* value = v + a.v(b, kv) + j * a.kv_row;
    for (int64_t d = threadIdx.x; d < a.size; d += kWarp) to[d] = to[d] * correction + e * value[d];
    sum = sum * correction + e;
    top = most;
  }
  for (int64_t d = threadIdx.x; d < a.size; d += kWarp) to[d] /= sum;
  if (threadIdx.x == 0) log_sums[a.row(b, h) + i] = top + logf(sum);
}

__global__ void plain_dq_kernel(AttentionShape a, Bias bias, float* dq, const float* q, const float* k,
                                const float* v, const float* dout, const float* log_sums,
                                const float* inner) {
  const TilePlace place(a.batch);
  const int64_t i = place.tile, h = blockIdx.y, b = place.sample, kv = a.kv_head(h);
  float* to = dq + a.q(b, h) + i * a.q_row;
  for (int64_t d = threadIdx.x; d < a.size; d += kWarp) to[d] = 0;
  for (int64_t j = a.unseen(i); j < a.seen(i); ++j) {
    const float* key = k + a.k(b, kv) + j * a.kv_row;
    const float s = a.scale * warp_dot(q + a.q(b, h) + i * a.q_row, key, a.size) + bias.of(a, b, h, i, j);
    const float dp = warp_dot(dout + a.out(b, h) + i * a.out_row(), v + a.v(b, kv) + j * a.kv_row, a.size);
    const float ds = a.scale * expf(s - log_sums[a.row(b, h) + i]) * (dp - inner[a.row(b, h) + i]);
    for (int64_t d = threadIdx.x; d < a.size; d += kWarp) to[d] += ds * key[d];
  }
}

__global__ void plain_dkv_kernel(AttentionShape a, Bias bias, float* dk, float* dv, const float* q,
                                 const float* k, const float* v, const float* dout, const float* log_sums,
                                 const float* inner) {
  const TilePlace place(a.batch);
  const int64_t j = place.tile, kv = blockIdx.y, b = place.sample, group = a.heads / a.kv_heads;
  float *to_k = dk + a.k(b, kv) + j * a.kv_row, *to_v = dv + a.v(b, kv) + j * a.kv_row;
  for (int64_t d = threadIdx.x; d < a.size; d += kWarp) to_k[d] = to_v[d] = 0;
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (int64_t i = 0; i < a.query; ++i) {
      if (a.seen(i) <= j || a.unseen(i) > j) continue;
      const float *query = q + a.q(b, h) + i * a.q_row, *d_out = dout + a.out(b, h) + i * a.out_row();
      const float s =
          a.scale * warp_dot(query, k + a.k(b, kv) + j * a.kv_row, a.size) + bias.of(a, b, h, i, j);
      const float dp = warp_dot(d_out, v + a.v(b, kv) + j * a.kv_row, a.size);
      const float p = expf(s - log_sums[a.row(b, h) + i]), ds = a.scale * p * (dp - inner[a.row(b, h) + i]);
      for (int64_t d = threadIdx.x; d < a.size; d += kWarp) {
        to_k[d] += ds * query[d];
        to_v[d] += p * d_out[d];
      }
    }
  }
}

/// The gradients of all scores of a query and head, added up by bucket: {batch x query, bucket, head}. A warp
/// each.
template <typename T>
__global__ void bias_kernel(AttentionShape a, Bias bias, float* sums, const T* q, const T* k, const T* v,
                            const T* dout, const float* log_sums, const float* inner) {
  const TilePlace place(a.batch);
  const int64_t i = place.tile, h = blockIdx.y, b = place.sample, kv = a.kv_head(h);
  float* mine = sums + (b * a.query + i) * a.buckets * a.heads + h;
  for (int64_t n = threadIdx.x; n < a.buckets; n += kWarp) mine[n * a.heads] = 0;
  __syncthreads();
  for (int64_t j = a.unseen(i); j < a.seen(i); ++j) {
    const float s = a.scale * warp_dot(q + a.q(b, h) + i * a.q_row, k + a.k(b, kv) + j * a.kv_row, a.size) +
                    bias.of(a, b, h, i, j);
    const float dp = warp_dot(dout + a.out(b, h) + i * a.out_row(), v + a.v(b, kv) + j * a.kv_row, a.size);
    if (threadIdx.x == 0)
      mine[bias.buckets.bucket(a.position(i), j) * a.heads] +=
          expf(s - log_sums[a.row(b, h) + i]) * (dp - inner[a.row(b, h) + i]);
  }
}

/// The last operand, where there is one.
Bias bias_of(const AttentionShape& a, const Launch& l, std::size_t operand) {
  return {a, a.buckets > 0 ? l.operands[operand] : nullptr};
}

template <int D, int R, int K, typename T>
Prepared forward(const AttentionShape& a) {
  return {[=](const Launch& l) {
    launch(attention_kernel<D, R, K, T>, tile_grid((a.query + R - 1) / R, a.heads, a.batch), kSide * kSide,
           l.stream, a, bias_of(a, l, 5), operand<T>(l, 0), operand<T>(l, 1), operand<T>(l, 2),
           operand<T>(l, 3), l.operands[4]);
  }};
}

template <typename T>
void sum_inner(const AttentionShape& a, float* inner, const T* out, const T* dout, Stream stream) {
  const int64_t rows = a.batch * a.heads * a.query;
  launch(inner_kernel<T>, blocks_for(rows * kWarp), kThreads, stream, a, rows, inner, out, dout);
}

template <int D, int R, int K, typename T>
Prepared backward(const AttentionShape& a) {
  return {[=](const Launch& l) {
            sum_inner(a, l.scratch, operand<T>(l, 6), operand<T>(l, 7), l.stream);
            T* q = operand<T>(l, 3);
            T* k = operand<T>(l, 4);
            T* v = operand<T>(l, 5);
            T* dout = operand<T>(l, 7);
            const Bias bias = bias_of(a, l, 9);
            launch(attention_dq_kernel<D, R, K, T>, tile_grid((a.query + R - 1) / R, a.heads, a.batch),
                   kSide * kSide, l.stream, a, bias, operand<T>(l, 0), q, k, v, dout, l.operands[8],
                   l.scratch);
            launch(attention_dkv_kernel<D, R, K, T>, tile_grid((a.key + K - 1) / K, a.kv_heads, a.batch),
                   kSide * kSide, l.stream, a, bias, operand<T>(l, 1), operand<T>(l, 2), q, k, v, dout,
                   l.operands[8], l.scratch);
          },
          a.batch * a.heads * a.out_rows};
}

template <typename T>
Prepared attention(const Call& c) {
  const AttentionShape a(c);
  if (a.size <= 32) return forward<32, 64, 32, T>(a);
  if (a.size <= 64) return forward<64, 64, 32, T>(a);
  return forward<128, 32, 32, T>(a);
}
Prepared attention_any(const Call& c) {
  const AttentionShape a(c);
  if (a.size <= kMostTiled) return attention<float>(c);
  return {[=](const Launch& l) {
    float* const* o = l.operands;
    launch(plain_kernel, tile_grid(a.query, a.heads, a.batch), kWarp, l.stream, a, bias_of(a, l, 5), o[0],
           o[1], o[2], o[3], o[4]);
  }};
}

template <typename T>
Prepared attention_backward(const Call& c) {
  const AttentionShape a(c);
  if (a.size <= 32) return backward<32, 32, 32, T>(a);
  if (a.size <= 64) return backward<64, 32, 32, T>(a);
  return backward<128, 16, 16, T>(a);
}
Prepared attention_backward_any(const Call& c) {
  const AttentionShape a(c);
  if (a.size <= kMostTiled) return attention_backward<float>(c);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            sum_inner(a, l.scratch, o[6], o[7], l.stream);
            const Bias bias = bias_of(a, l, 9);
            launch(plain_dq_kernel, tile_grid(a.query, a.heads, a.batch), kWarp, l.stream, a, bias, o[0],
                   o[3], o[4], o[5], o[7], o[8], l.scratch);
            launch(plain_dkv_kernel, tile_grid(a.key, a.kv_heads, a.batch), kWarp, l.stream, a, bias, o[1],
                   o[2], o[3], o[4], o[5], o[7], o[8], l.scratch);
          },
          a.batch * a.heads * a.out_rows};
}

template <typename T>
Prepared bias_backward(const Call& c) {
  const AttentionShape a(c);
  const int64_t rows = a.batch * a.query, columns = a.buckets * a.heads;
  const Prepared sum = prepare_column_sum(rows, columns);
  const int64_t of_rows = a.batch * a.heads * a.out_rows, inner = (of_rows + 63) / 64 * 64,
                sums = (rows * columns + 63) / 64 * 64;
  return {[=](const Launch& l) {
            float* const per_row = l.scratch + inner;
            sum_inner(a, l.scratch, operand<T>(l, 4), operand<T>(l, 5), l.stream);
            launch(bias_kernel<T>, tile_grid(a.query, a.heads, a.batch), kWarp, l.stream, a, bias_of(a, l, 7),
                   per_row, operand<T>(l, 1), operand<T>(l, 2), operand<T>(l, 3), operand<T>(l, 5),
                   l.operands[6], l.scratch);
            run_step(sum, {l.operands[0], per_row}, l, per_row + sums);
          },
          inner + sums + sum.scratch};
}

}  // namespace

void inner_products(const AttentionShape& a, float* inner, const float* out, const float* dout,
                    Stream stream) {
  sum_inner(a, inner, out, dout, stream);
}

void add_attention(Table& t) {
  set(t, Function::attention, attention_any, attention<Bf16>, attention<Fp16>,
      [](const Call& c) { return c.shape[5] <= kMostTiled ? half_operands<0, 1, 2, 3>(c) : 0; });
  set(t, Function::attention_backward, attention_backward_any, attention_backward<Bf16>,
      attention_backward<Fp16>,
      [](const Call& c) { return c.shape[5] <= kMostTiled ? half_operands<0, 1, 2, 3, 4, 5, 6, 7>(c) : 0; });
  set(t, Function::attention_bias_backward, bias_backward<float>, bias_backward<Bf16>, bias_backward<Fp16>,
      half_operands<1, 2, 3, 4, 5>);
}

}  // namespace tandem::exec::cuda

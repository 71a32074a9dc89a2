// SPDX-License-Identifier: Apache-2.0
// Attention that never stores its scores (Dao et al. 2022): tiles of queries and keys in shared memory,
// softmax as the keys pass by; the backward pass makes the scores again from their log sums. No atomics: one
// pass gathers dq, another dk and dv. Head sizes above 128 take plain kernels, a warp a row.
#include <algorithm>
#include <cmath>

#include "exec/device/cuda/attention_tiles.h"
#include "exec/device/cuda/product_attention.h"
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

constexpr float kUnseen = -3e38F;  ///< negligible next to kLowest
/// Threads of a block. Of a tile's rows a thread has every kDown-th, of what these are multiplied with every
/// kAcross-th.
constexpr int kDown = 4, kAcross = 16, kBlock = kDown * kAcross;
/// Blocks for which a multiprocessor has registers and shared memory.
template <int D>
constexpr int kBlocks = D > 64 ? 4 : 5;

__device__ int across() { return static_cast<int>(threadIdx.x) % kAcross; }
__device__ int down() { return static_cast<int>(threadIdx.x) / kAcross; }

/// Learned scores of distances, {bucket, head}; without a table there are none.
struct Bias {
  const float* table = nullptr;
  DistanceBuckets buckets;
  Bias(const AttentionShape& a, const float* scores) : table(a.buckets > 0 ? scores : nullptr) {
    if (table != nullptr) buckets = DistanceBuckets(a);
  }
  __device__ bool any() const { return table != nullptr; }
  __device__ float of(const AttentionShape& a, int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!any() || i >= a.query || j >= a.key) return 0;
    return table[buckets.bucket(a.position(i), j) * a.heads + h] + (a.apart(b, i, j) ? kApart : 0);
  }
};

/// N rows of D elements in shared memory. Each four lie side by side, at a place of the row that changes from
/// row to row: threads that read eight rows at the same column read eight times four different banks.
template <int N, int D>
struct Tile {
  float at[N * D];
  __device__ int place(int row, int column) const { return row * D + (column ^ (row & 7) << 2); }
  __device__ float& operator()(int row, int column) { return at[place(row, column)]; }
  /// W elements from `column` on, a multiple of W.
  template <int W>
  __device__ const Neighbours<float, W>& some(int row, int column) const {
    return *reinterpret_cast<const Neighbours<float, W>*>(at + place(row, column));
  }
  __device__ void keep(int row, int column, const Neighbours<float, 4>& v) {
    *reinterpret_cast<Neighbours<float, 4>*>(at + place(row, column)) = v;
  }
};

/// Zeros beyond `valid` rows and `size` columns. `wide`: four elements may be read at once.
template <int N, int D, typename T>
__device__ void load_tile(Tile<N, D>& to, const T* from, int64_t row, int64_t valid, int64_t size,
                          bool wide) {
  constexpr int kAtOnce = kBlock / (D / 4);  // rows
  const int d = static_cast<int>(threadIdx.x) % (D / 4) * 4, n = static_cast<int>(size) - d,
            rows = valid < N ? static_cast<int>(valid) : N;
  int r = static_cast<int>(threadIdx.x) / (D / 4);
  const T* at = from + r * row + d;
  if (wide) {
#pragma unroll 4
    for (; r < N; r += kAtOnce, at += kAtOnce * row) {
      Neighbours<float, 4> v{};
      if (r < rows && n > 0) {
        const auto in = *reinterpret_cast<const Neighbours<T, 4>*>(at);
#pragma unroll
        for (int k = 0; k < 4; ++k) v.v[k] = load(&in.v[k]);
      }
      to.keep(r, d, v);
    }
    return;
  }
#pragma unroll 1
  for (; r < N; r += kAtOnce, at += kAtOnce * row) {
    Neighbours<float, 4> v{};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (r < rows && k < n) v.v[k] = load(at + k);
    }
    to.keep(r, d, v);
  }
}

/// Learned scores of queries from `first` on and keys from `begin` on, where there are any.
template <bool KeysDown, int R, int K>
__device__ void load_bias(Tile<R, K>& to, const Bias& bias, const AttentionShape& a, int64_t b, int64_t h,
                          int64_t first, int64_t begin) {
  if (!bias.any()) return;
  for (int i = static_cast<int>(threadIdx.x); i < R * K; i += kBlock) {
    const int r = i / K, c = i % K;
    to(r, c) = bias.of(a, b, h, first + (KeysDown ? c : r), begin + (KeysDown ? r : c));
  }
}

/// s[i][j] = a[row i] . b[row j] for this thread's rows.
template <int D, int A, int B>
__device__ void dots(const Tile<A, D>& a, const Tile<B, D>& b, float (&s)[A / kDown][B / kAcross]) {
  for (int i = 0; i < A / kDown; ++i) {
    for (int j = 0; j < B / kAcross; ++j) s[i][j] = 0;
  }
#pragma unroll 2
  for (int d = 0; d < D; d += 4) {
    Neighbours<float, 4> q[B / kAcross];
#pragma unroll
    for (int j = 0; j < B / kAcross; ++j) q[j] = b.template some<4>(across() + j * kAcross, d);
#pragma unroll
    for (int i = 0; i < A / kDown; ++i) {
      const Neighbours<float, 4> p = a.template some<4>(down() + i * kDown, d);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int j = 0; j < B / kAcross; ++j) s[i][j] += p.v[k] * q[j].v[k];
      }
    }
  }
}

/// Columns of a head that a thread has side by side, and where its c-th is.
template <int D>
constexpr int kSideBySide = D / kAcross < 4 ? D / kAcross : 4;
template <int D>
__device__ int column(int c) {
  constexpr int W = kSideBySide<D>;
  return c / W * W * kAcross + across() * W + c % W;
}

/// acc[i][c] += sum over j of w[row i][j] v[j][column c].
template <int D, int A, int K>
__device__ void weigh(const Tile<A, K>& w, const Tile<K, D>& v, float (&acc)[A / kDown][D / kAcross]) {
  constexpr int W = kSideBySide<D>, kColumns = D / kAcross;
#pragma unroll 2
  for (int j = 0; j < K; j += 4) {
    Neighbours<float, W> value[4][kColumns / W];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int c = 0; c < kColumns; c += W) value[k][c / W] = v.template some<W>(j + k, column<D>(c));
    }
#pragma unroll
    for (int i = 0; i < A / kDown; ++i) {
      const Neighbours<float, 4> weight = w.template some<4>(down() + i * kDown, j);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) acc[i][c] += weight.v[k] * value[k][c / W].v[c % W];
      }
    }
  }
}

template <int D, int A, typename T>
__device__ void store_tile(T* to, int64_t row, int64_t valid, int64_t size, float factor,
                           const float (&acc)[A / kDown][D / kAcross]) {
  for (int i = 0; i < A / kDown; ++i) {
    for (int c = 0; c < D / kAcross; ++c) {
      const int r = down() + i * kDown, d = column<D>(c);
      if (r < valid && d < size) store(to + r * row + d, factor * acc[i][c]);
    }
  }
}

/// Grid: tiles of queries.
template <int D, int R, int K, typename T>
__global__ void __launch_bounds__(kBlock, kBlocks<D>)
    attention_kernel(AttentionShape a, Bias bias, bool wide, T* out, const T* q, const T* k, const T* v,
                     float* log_sums) {
  static_assert(R <= kBlock && K <= kMostTileRows);
  __shared__ __align__(16) Tile<R, D> queries;
  __shared__ __align__(16) Tile<K, D> keys;  // then the values
  __shared__ __align__(16) Tile<R, K> p;
  __shared__ Seen seen[R];
  const TilePlace place(a.batch, a.heads);
  const int64_t b = place.sample, h = place.head, first = first_query<R>(a, place.tile);
  const int64_t rows = a.query - first < R ? a.query - first : R, kv = a.kv_head(h);
  float top[R / kDown], sum[R / kDown], acc[R / kDown][D / kAcross] = {};
  for (int i = 0; i < R / kDown; ++i) {
    top[i] = kLowest;
    sum[i] = 0;
  }
  load_tile(queries, q + a.q(b, h) + first * a.q_row, a.q_row, rows, a.size, wide);
  const int64_t end = a.seen(first + rows - 1);
  for (int64_t begin = a.unseen(first) / K * K; begin < end; begin += K) {
    __syncthreads();
    load_tile(keys, k + a.k(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, wide);
    load_bias<false>(p, bias, a, b, h, first, begin);
    if (threadIdx.x < R) seen[threadIdx.x] = seen_by(a, first + threadIdx.x, begin);
    __syncthreads();
    float s[R / kDown][K / kAcross];
    dots<D, R, K>(queries, keys, s);
#pragma unroll
    for (int i = 0; i < R / kDown; ++i) {
      const int row = down() + i * kDown;
      const Seen sees = seen[row];
      float most = top[i], part = 0;
#pragma unroll
      for (int j = 0; j < K / kAcross; ++j) {
        const int key = across() + j * kAcross;
        s[i][j] = sees.has(key) ? a.scale * s[i][j] + (bias.any() ? p(row, key) : 0) : kUnseen;
        most = fmaxf(most, s[i][j]);
      }
      most = row_max<kAcross>(most);
      const float correction = exp2f(kLog2E * (top[i] - most));
      top[i] = most;
#pragma unroll
      for (int j = 0; j < K / kAcross; ++j) {
        const float e = exp2f(kLog2E * (s[i][j] - most));
        p(row, across() + j * kAcross) = e;
        part += e;
      }
      sum[i] = sum[i] * correction + part;  // of this thread's keys
#pragma unroll
      for (int c = 0; c < D / kAcross; ++c) acc[i][c] *= correction;
    }
    __syncthreads();
    load_tile(keys, v + a.v(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, wide);
    __syncthreads();
    weigh<D, R, K>(p, keys, acc);
  }
  for (int i = 0; i < R / kDown; ++i) {
    const int row = down() + i * kDown;
    sum[i] = row_sum<kAcross>(sum[i]);
    for (int c = 0; c < D / kAcross; ++c) acc[i][c] /= sum[i];
    if (across() == 0 && row < rows) log_sums[a.row(b, h) + first + row] = top[i] + logf(sum[i]);
  }
  store_tile<D, R>(out + a.out(b, h) + first * a.out_row(), a.out_row(), rows, a.size, 1, acc);
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

/// dq = scale dS k. Grid as forward.
template <int D, int R, int K, typename T>
__global__ void __launch_bounds__(kBlock, kBlocks<D>)
    attention_dq_kernel(AttentionShape a, Bias bias, bool wide, T* dq, const T* q, const T* k, const T* v,
                        const T* dout, const float* log_sums, const float* inner) {
  __shared__ __align__(16) Tile<R, D> queries;
  __shared__ __align__(16) Tile<R, D> douts;
  __shared__ __align__(16) Tile<K, D> keys;  // values first, then the keys
  __shared__ __align__(16) Tile<R, K> ds;
  __shared__ Query known[R];
  const TilePlace place(a.batch, a.heads);
  const int64_t b = place.sample, h = place.head, first = first_query<R>(a, place.tile);
  const int64_t rows = a.query - first < R ? a.query - first : R, kv = a.kv_head(h);
  float acc[R / kDown][D / kAcross] = {};
  load_tile(queries, q + a.q(b, h) + first * a.q_row, a.q_row, rows, a.size, wide);
  load_tile(douts, dout + a.out(b, h) + first * a.out_row(), a.out_row(), rows, a.size, wide);
  const int64_t end = a.seen(first + rows - 1);
  for (int64_t begin = a.unseen(first) / K * K; begin < end; begin += K) {
    float s[R / kDown][K / kAcross], d[R / kDown][K / kAcross];
    __syncthreads();
    load_tile(keys, v + a.v(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, wide);
    load_bias<false>(ds, bias, a, b, h, first, begin);
    if (threadIdx.x < R) known[threadIdx.x] = query_of(a, b, h, first + threadIdx.x, begin, log_sums, inner);
    __syncthreads();
    dots<D, R, K>(douts, keys, d);
    __syncthreads();
    load_tile(keys, k + a.k(b, kv) + begin * a.kv_row, a.kv_row, a.key - begin, a.size, wide);
    __syncthreads();
    dots<D, R, K>(queries, keys, s);
#pragma unroll
    for (int i = 0; i < R / kDown; ++i) {
      const int row = down() + i * kDown;
      const Query query = known[row];
#pragma unroll
      for (int j = 0; j < K / kAcross; ++j) {
        const int key = across() + j * kAcross;
        float& to = ds(row, key);
        to = query.probability(key, a.scale * s[i][j] + (bias.any() ? to : 0)) * (d[i][j] - query.inner);
      }
    }
    __syncthreads();
    weigh<D, R, K>(ds, keys, acc);
  }
  store_tile<D, R>(dq + a.q(b, h) + first * a.q_row, a.q_row, rows, a.size, a.scale, acc);
}

/// dv = P^T dout, dk = scale dS^T q, summed over the heads that share them, for R keys. Grid: tiles of keys.
template <int D, int R, int K, typename T>
__global__ void __launch_bounds__(kBlock, kBlocks<D>)
    attention_dkv_kernel(AttentionShape a, Bias bias, bool wide, T* dk, T* dv, const T* q, const T* k,
                         const T* v, const T* dout, const float* log_sums, const float* inner) {
  __shared__ __align__(16) Tile<R, D> keys;
  __shared__ __align__(16) Tile<R, D> values;
  __shared__ __align__(16) Tile<K, D> rows;     // queries, then dout, then queries again
  __shared__ __align__(16) Tile<R, K> weights;  // of queries on keys
  __shared__ Query known[K];
  const TilePlace place(a.batch, a.kv_heads);
  const int64_t b = place.sample, kv = place.head, begin = place.tile * R;
  const int64_t valid = a.key - begin < R ? a.key - begin : R, group = a.heads / a.kv_heads;
  float to_k[R / kDown][D / kAcross] = {}, to_v[R / kDown][D / kAcross] = {};
  load_tile(keys, k + a.k(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, wide);
  load_tile(values, v + a.v(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, wide);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (int64_t first = 0; first < a.query; first += K) {
      const int64_t queries = a.query - first < K ? a.query - first : K;
      if (a.seen(first + queries - 1) <= begin) continue;  // none of them sees these keys, or does any more
      if (a.unseen(first) >= begin + valid) break;
      const T *const head = q + a.q(b, h) + first * a.q_row, *const d_head =
                                                                 dout + a.out(b, h) + first * a.out_row();
      float s[R / kDown][K / kAcross];
      __syncthreads();
      load_tile(rows, head, a.q_row, queries, a.size, wide);
      load_bias<true>(weights, bias, a, b, h, first, begin);
      for (int i = static_cast<int>(threadIdx.x); i < K; i += kBlock)
        known[i] = query_of(a, b, h, first + i, begin, log_sums, inner);
      __syncthreads();
      dots<D, R, K>(keys, rows, s);
#pragma unroll
      for (int j = 0; j < K / kAcross; ++j) {
        const int column = across() + j * kAcross;
        const Query& query = known[column];
#pragma unroll
        for (int i = 0; i < R / kDown; ++i) {
          const int key = down() + i * kDown;
          float& p = weights(key, column);
          p = query.probability(key, a.scale * s[i][j] + (bias.any() ? p : 0));
        }
      }
      __syncthreads();
      load_tile(rows, d_head, a.out_row(), queries, a.size, wide);
      __syncthreads();
      weigh<D, R, K>(weights, rows, to_v);
      dots<D, R, K>(values, rows, s);
      __syncthreads();
#pragma unroll
      for (int j = 0; j < K / kAcross; ++j) {
        const int column = across() + j * kAcross;
        const float in = known[column].inner;
#pragma unroll
        for (int i = 0; i < R / kDown; ++i) weights(down() + i * kDown, column) *= s[i][j] - in;
      }
      load_tile(rows, head, a.q_row, queries, a.size, wide);
      __syncthreads();
      weigh<D, R, K>(weights, rows, to_k);
    }
  }
  store_tile<D, R>(dk + a.k(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, a.scale, to_k);
  store_tile<D, R>(dv + a.v(b, kv) + begin * a.kv_row, a.kv_row, valid, a.size, 1, to_v);
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
  const TilePlace place(a.batch, a.heads);
  const int64_t i = place.tile, h = place.head, b = place.sample, kv = a.kv_head(h);
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
  const TilePlace place(a.batch, a.heads);
  const int64_t i = place.tile, h = place.head, b = place.sample, kv = a.kv_head(h);
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
  const TilePlace place(a.batch, a.kv_heads);
  const int64_t j = place.tile, kv = place.head, b = place.sample, group = a.heads / a.kv_heads;
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
  const TilePlace place(a.batch, a.heads);
  const int64_t i = place.tile, h = place.head, b = place.sample, kv = a.kv_head(h);
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

/// Whether four elements of a head may be read at once.
bool wide(const AttentionShape& a, const Launch& l, std::size_t begin, std::size_t end) {
  return a.in_steps_of(4) && std::all_of(l.operands + begin, l.operands + end, wide_aligned);
}

template <int D, int R, int K, typename T>
Prepared forward(const AttentionShape& a) {
  return {[=](const Launch& l) {
    launch(attention_kernel<D, R, K, T>, tile_grid((a.query + R - 1) / R, a.heads, a.batch), kBlock, l.stream,
           a, bias_of(a, l, 5), wide(a, l, 1, 4), operand<T>(l, 0), operand<T>(l, 1), operand<T>(l, 2),
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
            const bool four = wide(a, l, 3, 8);
            launch(attention_dq_kernel<D, R, K, T>, tile_grid((a.query + R - 1) / R, a.heads, a.batch),
                   kBlock, l.stream, a, bias, four, operand<T>(l, 0), q, k, v, dout, l.operands[8],
                   l.scratch);
            launch(attention_dkv_kernel<D, R, K, T>, tile_grid((a.key + R - 1) / R, a.kv_heads, a.batch),
                   kBlock, l.stream, a, bias, four, operand<T>(l, 1), operand<T>(l, 2), q, k, v, dout,
                   l.operands[8], l.scratch);
          },
          a.batch * a.heads * a.out_rows};
}

template <typename T>
Prepared attention(const Call& c) {
  const AttentionShape a(c);
  if (a.size <= 32) return forward<32, 32, 64, T>(a);
  if (a.size <= 64) return forward<64, 32, 64, T>(a);
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
  if (a.size <= 32) return backward<32, 32, 64, T>(a);
  if (a.size <= 64) return backward<64, 32, 64, T>(a);
  return backward<128, 16, 32, T>(a);
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

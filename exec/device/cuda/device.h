// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the .cu files share: launching, sums over a block and over columns, storage types. Compiles as plain
// C++ too, where a header given beforehand (TANDEM_CUDA_EMULATED) emulates threads and blocks.
#ifndef TANDEM_CUDA_EMULATED
#include <cuda_runtime.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "exec/device/cuda/kernel.h"

namespace tandem::exec::cuda {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

inline unsigned blocks_for(int64_t items, int64_t per_block = kThreads) {
  return static_cast<unsigned>(std::max<int64_t>(1, (items + per_block - 1) / per_block));
}

template <typename... P, typename... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, [[maybe_unused]] Stream stream, A... arguments) {
#ifdef TANDEM_CUDA_EMULATED
  emulated::run(grid, block, [&] { kernel(static_cast<P>(arguments)...); });
#else
  // clang-format off
  kernel<<<grid, block, 0, stream>>>(static_cast<P>(arguments)...);
  // clang-format on
  check_launch();
#endif
}

__device__ inline int64_t global_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// ---- storage types: what lies in memory; all arithmetic is in float ----
__host__ __device__ inline float load(const float* p) { return *p; }
__host__ __device__ inline void store(float* p, float v) { *p = v; }

/// Elements that one thread moves at once: 16 bytes.
template <typename T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));
/// Elements that lie side by side, read and written at once.
template <typename T, int W>
struct alignas(sizeof(T) * W) Neighbours {
  T v[W];
};
template <typename T>
using Pack = Neighbours<T, kWide<T>>;

/// An operand as it lies in memory.
template <typename T>
T* operand(const Launch& l, std::size_t k) {
  return reinterpret_cast<T*>(l.operands[k]);
}

inline bool wide_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// y[i] = f(x[i]) for two storage types or one.
template <bool Wide, typename T, typename F>
__global__ void map_kernel(int64_t n, F f, T* y, const T* x) {
  constexpr int W = Wide ? kWide<T> : 1;
  const int64_t i = global_index() * W;
  if constexpr (Wide) {
    if (i + W <= n) {
      const Pack<T> in = *reinterpret_cast<const Pack<T>*>(x + i);
      Pack<T> out;
#pragma unroll
      for (int k = 0; k < W; ++k) store(&out.v[k], f(load(&in.v[k])));
      *reinterpret_cast<Pack<T>*>(y + i) = out;
      return;
    }
  }
  for (int64_t k = i; k < n && k < i + W; ++k) store(y + k, f(load(x + k)));
}
/// y[i] = f(a[i], b[i]).
template <bool Wide, typename T, typename F>
__global__ void map2_kernel(int64_t n, F f, T* y, const T* a, const T* b) {
  constexpr int W = Wide ? kWide<T> : 1;
  const int64_t i = global_index() * W;
  if constexpr (Wide) {
    if (i + W <= n) {
      const Pack<T> p = *reinterpret_cast<const Pack<T>*>(a + i),
                    q = *reinterpret_cast<const Pack<T>*>(b + i);
      Pack<T> out;
#pragma unroll
      for (int k = 0; k < W; ++k) store(&out.v[k], f(load(&p.v[k]), load(&q.v[k])));
      *reinterpret_cast<Pack<T>*>(y + i) = out;
      return;
    }
  }
  for (int64_t k = i; k < n && k < i + W; ++k) store(y + k, f(load(a + k), load(b + k)));
}

template <typename T, typename F>
void map(int64_t n, F f, T* y, const T* x, Stream stream) {
  if (n == 0) return;
  if (wide_aligned(y) && wide_aligned(x))
    launch(map_kernel<true, T, F>, blocks_for(n, kThreads * kWide<T>), kThreads, stream, n, f, y, x);
  else
    launch(map_kernel<false, T, F>, blocks_for(n), kThreads, stream, n, f, y, x);
}
template <typename T, typename F>
void map2(int64_t n, F f, T* y, const T* a, const T* b, Stream stream) {
  if (n == 0) return;
  if (wide_aligned(y) && wide_aligned(a) && wide_aligned(b))
    launch(map2_kernel<true, T, F>, blocks_for(n, kThreads * kWide<T>), kThreads, stream, n, f, y, a, b);
  else
    launch(map2_kernel<false, T, F>, blocks_for(n), kThreads, stream, n, f, y, a, b);
}

// ---- reductions: always in the same order ----
constexpr int kTileRows = 8;  ///< of a block that has a warp per row
/// v[k] summed over a warp, known to all of it.
template <int N, typename T>
__device__ void warp_sum(T (&v)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    for (int d = kWarp / 2; d > 0; d /= 2) v[k] += __shfl_xor_sync(0xffffffffU, v[k], d);
  }
}
/// v[k] summed over all threads of the block, known to all of them. Whole warps, at most 1024 threads.
template <int N, typename T>
__device__ void block_sum(T (&v)[N]) {
  __shared__ T part[N][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  warp_sum(v);
  if (warps == 1) return;
  __syncthreads();  // what an earlier call left has been read
  if (lane == 0) {
    for (int k = 0; k < N; ++k) part[k][warp] = v[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < N; ++k) {
    T sum = 0;
    for (unsigned w = 0; w < warps; ++w) sum += part[k][w];
    v[k] = sum;
  }
}
__device__ inline float block_max(float v) {
  __shared__ float part[kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  for (int d = kWarp / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, d));
  if (warps == 1) return v;
  __syncthreads();
  if (lane == 0) part[warp] = v;
  __syncthreads();
  for (unsigned w = 0; w < warps; ++w) v = fmaxf(v, part[w]);
  return v;
}
/// Threads of a block that walks a row of that many elements: a power of two from 32 to 1024.
inline unsigned row_threads(int64_t elements) {
  unsigned threads = kWarp;
  while (threads < 1024 && threads * 4 < elements) threads *= 2;
  return threads;
}

/// In pieces of at most 16 bytes, from an address on that is a multiple of theirs.
template <int W, typename T>
__device__ void load_neighbours(const T* p, float (&out)[W]) {
  constexpr int V = W < kWide<T> ? W : kWide<T>;
#pragma unroll
  for (int from = 0; from < W; from += V) {
    const Neighbours<T, V> in = *reinterpret_cast<const Neighbours<T, V>*>(p + from);
#pragma unroll
    for (int k = 0; k < V; ++k) out[from + k] = load(&in.v[k]);
  }
}
template <int W, typename T>
__device__ void store_neighbours(T* p, const float (&values)[W]) {
  constexpr int V = W < kWide<T> ? W : kWide<T>;
#pragma unroll
  for (int from = 0; from < W; from += V) {
    Neighbours<T, V> out;
#pragma unroll
    for (int k = 0; k < V; ++k) store(&out.v[k], values[from + k]);
    *reinterpret_cast<Neighbours<T, V>*>(p + from) = out;
  }
}
/// Are these addresses of W neighbours each (null, too)?
template <typename... T>
bool neighbours_at(int wide, const T*... at) {
  return ((reinterpret_cast<uintptr_t>(at) % std::min<std::size_t>(16, sizeof(T) * wide) == 0) && ...);
}

/// Threads side by side over that many items, at most a warp: a power of two. The rest of a block of kThreads
/// takes other rows.
inline unsigned lanes_for(int64_t items) {
  unsigned lanes = 1;
  while (lanes < kWarp && lanes < items) lanes *= 2;
  return lanes;
}

/// Sums over rows of N values per column, in two launches: chunks of rows side by side, then the chunks of a
/// column. Value: template <int W> void operator()(int64_t row, int64_t column, float (&out)[W][N]), of W
/// columns from that one on, a multiple of W. Or columns<W>(column), which reads what belongs to the columns;
/// it returns a function that reads a row, which returns one of `out`, and that may write. Finish: void
/// operator()(int64_t column, const float (&sums)[N]), called once per column.
template <int W, typename Value>
__device__ auto of_columns(const Value& value, int64_t column) {
  if constexpr (requires { value.template columns<W>(column); })
    return value.template columns<W>(column);
  else
    return [&value, column](int64_t row) {
      return [&value, column, row](auto& out) { value(row, column, out); };
    };
}
/// All chunks walk from the first rows to the last together, so that what was read last, and is still in the
/// cache, are the last rows.
template <int N, int W, typename Value>
__global__ void __launch_bounds__(kThreads, N == 1 ? 5 : 3)
    column_chunks(int64_t rows, int64_t columns, Value value, float* partial) {
  __shared__ Neighbours<float, W> part[N][kThreads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, tile = blockDim.x * W;
  const int64_t first = int64_t{blockIdx.x} * tile, column = first + threadIdx.x * W;
  float sum[N][W] = {};
  if (column < columns) {
    const auto row = of_columns<W>(value, column);
    const auto add = [&](const auto& values) {
      float v[W][N];
      values(v);
#pragma unroll
      for (int w = 0; w < W; ++w) {
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k][w] += v[w][k];
      }
    };
    const int64_t step = int64_t{gridDim.y} * blockDim.y;
    int64_t r = int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
    if constexpr (N == 1) {  // whose rows are short: more of them fit into the registers
#pragma unroll 1
      for (; r + 3 * step < rows; r += 4 * step) {
        const auto first_row = row(r), second = row(r + step), third = row(r + 2 * step),
                   fourth = row(r + 3 * step);
        add(first_row);
        add(second);
        add(third);
        add(fourth);
      }
    }
#pragma unroll(N)
    for (; r + step < rows; r += 2 * step) {  // all rows of a turn are read before any is written
      const auto one = row(r), other = row(r + step);
      add(one);
      add(other);
    }
    if (r < rows) add(row(r));
  }
#pragma unroll
  for (int k = 0; k < N; ++k) store_neighbours(part[k][thread].v, sum[k]);
  __syncthreads();
  if (thread >= tile || first + thread >= columns) return;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float* const of_rows = reinterpret_cast<const float*>(part[k]) + thread;
    float total = 0;
    for (unsigned y = 0; y < blockDim.y; ++y) total += of_rows[y * tile];
    partial[(int64_t{blockIdx.y} * N + k) * columns + first + thread] = total;
  }
}
/// Blocks of few columns, a sector of memory wide, and many chunks: often there are 64 columns only, and a
/// loop over all their chunks would take longer than all else.
constexpr unsigned kFinishColumns = 8, kFinishRows = 128;
constexpr int kFinishAtOnce = 4;  ///< chunks that a thread reads before it adds any
template <int N, typename Finish>
__global__ void column_finish(unsigned chunks, int64_t columns, const float* partial, Finish finish) {
  constexpr unsigned kRowsOfWarp = kWarp / kFinishColumns;
  __shared__ float part[N][kFinishRows / kRowsOfWarp][kFinishColumns];
  const int64_t column = int64_t{blockIdx.x} * kFinishColumns + threadIdx.x;
  float sum[N] = {};
  if (column < columns) {
#pragma unroll 1
    for (unsigned from = threadIdx.y; from < chunks; from += kFinishAtOnce * blockDim.y) {
      float v[kFinishAtOnce][N];
#pragma unroll
      for (int a = 0; a < kFinishAtOnce; ++a) {
        const unsigned c = from + a * blockDim.y;
#pragma unroll
        for (int k = 0; k < N; ++k)
          v[a][k] = c < chunks ? partial[(int64_t{c} * N + k) * columns + column] : 0;
      }
#pragma unroll
      for (int a = 0; a < kFinishAtOnce; ++a) {
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += v[a][k];
      }
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    for (int d = kFinishColumns; d < kWarp; d *= 2) sum[k] += __shfl_xor_sync(0xffffffffU, sum[k], d);
    if (threadIdx.y % kRowsOfWarp == 0) part[k][threadIdx.y / kRowsOfWarp][threadIdx.x] = sum[k];
  }
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  float total[N] = {};
#pragma unroll
  for (int k = 0; k < N; ++k) {
    for (unsigned r = 0; r < blockDim.y / kRowsOfWarp; ++r) total[k] += part[k][r][threadIdx.x];
  }
  finish(column, total);
}

/// How a column sum is cut: about as many blocks as a large chip of 132 processors runs at once, and four
/// rows a thread at least. Sums of one value read so little that waiting for memory is all they do while a
/// matrix is small: all threads then have whole turns of four rows. Not by how elements are stored, so that
/// sums of 2 bytes and of 4 are made in one order.
struct ColumnCut {
  int64_t rows, columns, chunks;
  int wide = 1;  ///< columns that a thread takes: 16 bytes of 2-byte elements
  unsigned lanes;
  ColumnCut(int64_t r, int64_t c, int values) : rows(r), columns(c) {
    while (wide < 8 && columns % (2 * wide) == 0) wide *= 2;
    lanes = lanes_for(columns / wide);
    const int64_t at_once = wide < 8 ? 768 : values == 1 ? 640 : 384;  // 5 or 3 of the widest a processor
    const int64_t tiles = blocks_for(columns, lanes * wide), most = (at_once + tiles - 1) / tiles;
    const int64_t turn = kThreads / lanes * 4;  // rows of a block
    chunks = std::max<int64_t>(1, std::min(most, rows / turn));
    if (values == 1) chunks = blocks_for(rows, blocks_for(rows, chunks * turn) * turn);
  }
  int64_t scratch(int values) const { return chunks * values * columns; }
};
/// `contiguous`: the columns of a row lie side by side, from addresses on that are multiples of what a thread
/// takes.
template <int N, typename Value, typename Finish>
void column_sums(const ColumnCut& cut, bool contiguous, const Value& value, const Finish& finish,
                 float* scratch, Stream stream) {
  const int wide = contiguous ? cut.wide : 1;
  const auto sum = [&](auto kernel) {
    const dim3 grid(blocks_for(cut.columns, int64_t{cut.lanes} * wide), static_cast<unsigned>(cut.chunks));
    launch(kernel, grid, dim3(cut.lanes, kThreads / cut.lanes), stream, cut.rows, cut.columns, value,
           scratch);
  };
  wide == 8   ? sum(column_chunks<N, 8, Value>)
  : wide == 4 ? sum(column_chunks<N, 4, Value>)
  : wide == 2 ? sum(column_chunks<N, 2, Value>)
              : sum(column_chunks<N, 1, Value>);
  unsigned height = kWarp / kFinishColumns;
  while (height < kFinishRows && height * kFinishAtOnce < cut.chunks) height *= 2;
  launch(column_finish<N, Finish>, blocks_for(cut.columns, kFinishColumns), dim3(kFinishColumns, height),
         stream, cut.chunks, cut.columns, scratch, finish);
}
/// Of matrices that lie row by row at these addresses, and of numbers per column.
template <typename... T>
bool contiguous_columns(const ColumnCut& cut, const T*... at) {
  return neighbours_at(cut.wide, at...);
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// PowerSGD's products and Gram-Schmidt: within rounding the CPU's. All sums are in a fixed order. P Q^T,
// which every worker makes of the same sums, is made by our own kernels alone: workers must get the same
// bits.
#include "exec/device/cuda/powersgd.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "exec/device/cuda/device.h"

namespace tandem::exec::cuda {

namespace {

constexpr int64_t kCopied = 4096;  ///< elements that a block copies

/// A tensor that a launch works on.
struct PlacedFactors {
  int64_t first, rows, columns;  ///< of delta
  int64_t left, right;           ///< where P and Q begin; left: what travels as it is
  int64_t end;                   ///< of the launch's blocks, past its last
  int rank;                      ///< 0: it travels as it is
};
/// What a launch works on, as an argument.
constexpr int kTogether = 32;
struct FactorList {
  PlacedFactors of[kTogether];
  int count = 0;
  /// Of that block, which becomes a block of those factors.
  __device__ PlacedFactors find(int64_t& block) const {
    int k = 0;
    while (block >= of[k].end) ++k;
    if (k > 0) block -= of[k - 1].end;
    return of[k];
  }
};
/// blocks(factors): 0 leaves them out.
template <typename Blocks>
std::vector<FactorList> lists_of(const CompressionShape& s, Blocks blocks) {
  std::vector<FactorList> out;
  s.each_factor([&](const Factors& f, int64_t left, int64_t right) {
    const int64_t own = blocks(f);
    if (own == 0) return;
    if (out.empty() || out.back().count == kTogether) out.emplace_back();
    FactorList& to = out.back();
    const int64_t before = to.count > 0 ? to.of[to.count - 1].end : 0;
    to.of[to.count++] = {f.first, f.rows, f.columns, left, right, before + own, f.rank};
  });
  return out;
}
unsigned blocks_of(const FactorList& list) { return static_cast<unsigned>(list.of[list.count - 1].end); }

/// The matrices' columns; 0: there are none.
int rank_of(const CompressionShape& s) {
  int rank = 0;
  for (const Factors& f : s.factors) rank = std::max(rank, static_cast<int>(f.rank));
  return rank;
}
/// Up to here most of a product is reading M, for which our own kernels do; beyond, a library is asked.
constexpr int kMostOwn = 8;
/// f(constant): that many columns.
template <typename F>
auto by_columns(int rank, F f) {
  if (rank == 1) return f(std::integral_constant<int, 1>{});
  if (rank == 2) return f(std::integral_constant<int, 2>{});
  return f(std::integral_constant<int, 4>{});
}

constexpr int kRows = 4;            ///< of M at once, so that Q is read less often
constexpr int64_t kLongRow = 1024;  ///< columns beyond which a block walks a row, not a warp

/// P = M Q, or what travels as it is.
template <int R>
__global__ void left_kernel(FactorList list, float* words, const float* delta) {
  int64_t block = blockIdx.x;
  const PlacedFactors f = list.find(block);
  const float *const m = delta + f.first, *const q = words + f.right;
  float* const p = words + f.left;
  if (f.rank == 0) {
    const int64_t n = f.rows * f.columns, end = (block + 1) * kCopied < n ? (block + 1) * kCopied : n;
    for (int64_t i = block * kCopied + threadIdx.x; i < end; i += kThreads) p[i] = m[i];
    return;
  }
  const bool wide = f.columns > kLongRow;
  const unsigned stride = wide ? kThreads : kWarp, lane = threadIdx.x % stride;
  const int64_t row = (wide ? block : block * (kThreads / kWarp) + threadIdx.x / kWarp) * kRows;
  for (int from = 0; from < f.rank; from += R) {
    float sums[kRows * R] = {};
#pragma unroll 2
    for (int64_t c = lane; c < f.columns; c += stride) {
      float right[R];
#pragma unroll
      for (int k = 0; k < R; ++k) right[k] = from + k < f.rank ? q[c * f.rank + from + k] : 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float v = row + r < f.rows ? m[(row + r) * f.columns + c] : 0;
#pragma unroll
        for (int k = 0; k < R; ++k) sums[r * R + k] += v * right[k];
      }
    }
    wide ? block_sum(sums) : warp_sum(sums);
    if (lane > 0) continue;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < R; ++k) {
        if (row + r < f.rows && from + k < f.rank) p[(row + r) * f.rank + from + k] = sums[r * R + k];
      }
    }
  }
}

/// A product of each matrix, by the library. `of`: from the sizes.
template <typename Of>
std::vector<std::pair<PlacedFactors, RunProduct>> library_products(const CompressionShape& s, Of of) {
  std::vector<std::pair<PlacedFactors, RunProduct>> out;
  for (const FactorList& p : lists_of(s, [](const Factors& f) { return f.rank > 0 ? 1 : 0; })) {
    for (int k = 0; k < p.count; ++k) out.emplace_back(p.of[k], make_product()(of(p.of[k])));
  }
  return out;
}

}  // namespace

Prepared compress_powersgd(const CompressionShape& s) {
  const int64_t n = s.elements;
  const bool feedback = s.feedback, library = rank_of(s) > kMostOwn;
  const auto lists = lists_of(s, [library](const Factors& f) -> int64_t {
    if (f.rank == 0) return blocks_for(f.left(), kCopied);
    if (library) return 0;
    return blocks_for(f.rows, f.columns > kLongRow ? kRows : kRows * kThreads / kWarp);
  });
  std::vector<std::pair<PlacedFactors, RunProduct>> products;
  if (library)
    products = library_products(s, [](const PlacedFactors& f) {
      Product p;
      p.m = f.rows;
      p.n = p.ldb = p.ldc = f.rank;
      p.k = p.lda = f.columns;
      return p;
    });
  const auto left = by_columns(rank_of(s), [](auto r) { return &left_kernel<r>; });
  return {[=](const Launch& l) {
    float *const words = l.operands[0], *const delta = l.operands[1];
    if (feedback) accumulate(delta, l.operands[2], n, l.stream);
    for (const FactorList& p : lists) launch(left, blocks_of(p), kThreads, l.stream, p, words, delta);
    for (const auto& [f, product] : products) product(words + f.left, delta + f.first, words + f.right, l);
  }};
}

namespace {

/// A block a matrix: modified Gram-Schmidt as the CPU's, but that several columns lose their part of one at
/// once. Each row is one thread's.
constexpr unsigned kOrthonormalThreads = 512;
__global__ void orthonormal_kernel(FactorList list, float* words) {
  constexpr int kOthers = 4;
  int64_t block = blockIdx.x;
  const PlacedFactors f = list.find(block);
  float* const p = words + f.left;
  for (int c = 0; c < f.rank; ++c) {
    double norm[1] = {0};
    for (int64_t r = threadIdx.x; r < f.rows; r += blockDim.x) {
      const double v = p[r * f.rank + c];
      norm[0] += v * v;
    }
    block_sum(norm);
    const auto factor = static_cast<float>(1 / (sqrt(norm[0]) + 1e-8));
    for (int64_t r = threadIdx.x; r < f.rows; r += blockDim.x) p[r * f.rank + c] *= factor;
    for (int other = c + 1; other < f.rank; other += kOthers) {
      const int count = f.rank - other < kOthers ? f.rank - other : kOthers;
      double along[kOthers] = {};
      for (int64_t r = threadIdx.x; r < f.rows; r += blockDim.x) {
        const double own = p[r * f.rank + c];
#pragma unroll
        for (int k = 0; k < kOthers; ++k)
          along[k] += k < count ? own * static_cast<double>(p[r * f.rank + other + k]) : 0;
      }
      block_sum(along);
      for (int64_t r = threadIdx.x; r < f.rows; r += blockDim.x) {
        const float own = p[r * f.rank + c];
#pragma unroll
        for (int k = 0; k < kOthers; ++k) {
          if (k < count) p[r * f.rank + other + k] -= static_cast<float>(along[k]) * own;
        }
      }
    }
  }
}

/// Columns of M times R of P's.
template <int R>
struct Along {
  const float *m, *p;
  int64_t columns;
  int rank, from;
  template <int W>
  __device__ void operator()(int64_t r, int64_t c, float (&out)[W][R]) const {
    float v[W];
    load_neighbours(m + r * columns + c, v);
#pragma unroll
    for (int k = 0; k < R; ++k) {
      const float left = from + k < rank ? p[r * rank + from + k] : 0;
#pragma unroll
      for (int w = 0; w < W; ++w) out[w][k] = v[w] * left;
    }
  }
};
template <int R>
struct WriteRight {
  float* q;
  int rank, from;
  __device__ void operator()(int64_t c, const float (&sums)[R]) const {
#pragma unroll
    for (int k = 0; k < R; ++k) {
      if (from + k < rank) q[c * rank + from + k] = sums[k];
    }
  }
};

/// Q = M^T P.
template <int R>
void run_right(const PlacedFactors& f, float* words, const float* delta, const Launch& l) {
  const ColumnCut cut(f.rows, f.columns, R);
  const float* const m = delta + f.first;
  for (int from = 0; from < f.rank; from += R)
    column_sums<R>(cut, contiguous_columns(cut, m), Along<R>{m, words + f.left, f.columns, f.rank, from},
                   WriteRight<R>{words + f.right, f.rank, from}, l.scratch, l.stream);
}

}  // namespace

Prepared orthogonalise_powersgd(const CompressionShape& s) {
  const int rank = rank_of(s);
  const auto lists = lists_of(s, [](const Factors& f) { return f.rank > 0 ? 1 : 0; });
  std::vector<std::pair<PlacedFactors, RunProduct>> products;
  int64_t scratch = 0;
  if (rank > kMostOwn) {
    products = library_products(s, [](const PlacedFactors& f) {
      Product p;
      p.transpose_a = true;
      p.m = p.lda = f.columns;
      p.n = p.ldb = p.ldc = f.rank;
      p.k = f.rows;
      return p;
    });
  } else {
    by_columns(rank, [&](auto r) {
      for (const Factors& f : s.factors)
        scratch = std::max(scratch, f.rank > 0 ? ColumnCut(f.rows, f.columns, r).scratch(r) : 0);
    });
  }
  const auto right = by_columns(rank, [](auto r) { return &run_right<r>; });
  return {[=](const Launch& l) {
            float* const words = l.operands[0];
            for (const FactorList& p : lists)
              launch(orthonormal_kernel, blocks_of(p), kOrthonormalThreads, l.stream, p, words);
            for (const auto& [f, product] : products)
              product(words + f.right, l.operands[1] + f.first, words + f.left, l);
            if (!products.empty()) return;
            for (const FactorList& p : lists) {
              for (int k = 0; k < p.count; ++k) right(p.of[k], words, l.operands[1], l);
            }
          },
          scratch};
}

namespace {

constexpr int kRowsOfThread = 8;

/// P Q^T, in tiles of a warp's columns; what a worker's own has beyond the mean stays with it.
template <int R>
__global__ void restore_kernel(FactorList list, bool feedback, float share, float* sum, float* delta,
                               const float* words) {
  int64_t block = blockIdx.x;
  const PlacedFactors f = list.find(block);
  const float *const p = words + f.left, *const q = words + f.right;
  sum += f.first;
  delta += f.first;
  if (f.rank == 0) {
    const int64_t n = f.rows * f.columns, end = (block + 1) * kCopied < n ? (block + 1) * kCopied : n;
    for (int64_t i = block * kCopied + threadIdx.y * kWarp + threadIdx.x; i < end; i += kThreads) {
      sum[i] = p[i];
      if (feedback) delta[i] = 0;
    }
    return;
  }
  const int64_t tiles = (f.columns + kWarp - 1) / kWarp, column = block % tiles * kWarp + threadIdx.x,
                row = block / tiles * (kTileRows * kRowsOfThread) + threadIdx.y;
  if (column >= f.columns) return;
  float v[kRowsOfThread] = {};
  for (int from = 0; from < f.rank; from += R) {
    float right[R];
#pragma unroll
    for (int k = 0; k < R; ++k) right[k] = from + k < f.rank ? q[column * f.rank + from + k] : 0;
#pragma unroll
    for (int t = 0; t < kRowsOfThread; ++t) {
      const int64_t r = row + t * kTileRows;
#pragma unroll
      for (int k = 0; k < R; ++k) {
        if (r < f.rows && from + k < f.rank) v[t] += p[r * f.rank + from + k] * right[k];
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kRowsOfThread; ++t) {
    const int64_t r = row + t * kTileRows, i = r * f.columns + column;
    if (r >= f.rows) return;
    sum[i] = v[t];
    if (feedback) delta[i] -= share * v[t];
  }
}

}  // namespace

Prepared decompress_powersgd(const CompressionShape& s) {
  const bool feedback = s.feedback;
  const float share = 1 / static_cast<float>(s.workers);
  const auto lists = lists_of(s, [](const Factors& f) -> int64_t {
    if (f.rank == 0) return blocks_for(f.left(), kCopied);
    return int64_t{blocks_for(f.columns, kWarp)} * blocks_for(f.rows, kTileRows * kRowsOfThread);
  });
  const auto restore = by_columns(rank_of(s), [](auto r) { return &restore_kernel<r>; });
  return {[=](const Launch& l) {
    for (const FactorList& p : lists)
      launch(restore, blocks_of(p), dim3(kWarp, kTileRows), l.stream, p, feedback, share, l.operands[0],
             l.operands[2], l.operands[1]);
  }};
}

}  // namespace tandem::exec::cuda

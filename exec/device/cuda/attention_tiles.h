// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kernels of attention by tiles share. For .cu files.
#include "exec/device/cuda/device.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// Which tile of which head a block works on, all in the grid's x, which alone may be large. Blocks start in
/// the order of x: those of the same tile of all heads next to each other.
struct TilePlace {
  int64_t sample, head, tile;
  __device__ TilePlace(int64_t batch, int64_t heads) {
    const unsigned samples = static_cast<unsigned>(batch), of_sample = static_cast<unsigned>(heads);
    const unsigned rest = blockIdx.x / samples;
    sample = blockIdx.x % samples;
    head = rest % of_sample;
    tile = rest / of_sample;
  }
};
/// TilePlace's.
inline dim3 tile_grid(int64_t tiles, int64_t heads, int64_t batch) {
  return {static_cast<unsigned>(tiles * heads * batch)};
}
/// First of the R queries of a tile. Of those that see only what comes before them the last see most: they
/// come first, so that no block ends long after all others.
template <int R>
__device__ int64_t first_query(const AttentionShape& a, int64_t tile) {
  return (a.causal ? (a.query - 1) / R - tile : tile) * R;
}

/// Powers of 2 take half of expf's instructions.
constexpr float kLog2E = 1.44269504F;
constexpr float kLowest = -1e30F;  ///< below all scores

/// Keys of a tile that a query sees, counted from the tile's first.
constexpr int kMostTileRows = 64;
struct Seen {
  int from, end;
  __device__ bool has(int key) const { return key >= from && key < end; }
};
__device__ inline int within_tile(int64_t n) {
  return static_cast<int>(n < 0 ? 0 : n < kMostTileRows ? n : kMostTileRows);
}
__device__ inline Seen seen_by(const AttentionShape& a, int64_t query, int64_t begin) {
  return {within_tile(a.unseen(query) - begin), within_tile(a.seen(query) - begin)};
}

/// What the backward pass knows of a query: its log sum, dout . out, and the keys of a tile that it sees.
struct Query {
  float log_sum, inner;
  Seen seen;
  __device__ float probability(int key, float score) const {
    return seen.has(key) ? exp2f(kLog2E * (score - log_sum)) : 0;
  }
};
__device__ inline Query query_of(const AttentionShape& a, int64_t b, int64_t h, int64_t i, int64_t begin,
                                 const float* log_sums, const float* inner) {
  if (i >= a.query) return {0, 0, {0, 0}};
  return {log_sums[a.row(b, h) + i], inner[a.row(b, h) + i], seen_by(a, i, begin)};
}

/// Over that many neighbouring lanes, which hold one row.
template <int Lanes>
__device__ float row_max(float v) {
  for (int d = Lanes / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, d));
  return v;
}
template <int Lanes>
__device__ float row_sum(float v) {
  for (int d = Lanes / 2; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffU, v, d);
  return v;
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kernels of attention by tiles share. For .cu files.
#include "exec/device/cuda/device.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// Which tile of which sample a block works on: both in the grid's x, which alone may be large; tiles of a
/// sample are neighbours.
struct TilePlace {
  int64_t sample, tile;
  __device__ explicit TilePlace(int64_t batch) {
    const int64_t tiles = gridDim.x / batch;
    sample = blockIdx.x / tiles;
    tile = blockIdx.x % tiles;
  }
};
/// TilePlace's.
inline dim3 tile_grid(int64_t tiles, int64_t heads, int64_t batch) {
  return {static_cast<unsigned>(tiles * batch), static_cast<unsigned>(heads)};
}

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

/// Over so many neighbouring lanes, which hold one row.
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

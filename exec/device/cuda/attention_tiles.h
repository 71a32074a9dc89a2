// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kernels of attention by tiles share. For .cu files.
#include "exec/device/cuda/device.h"

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

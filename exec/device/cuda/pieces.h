// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writing to copies in 2 bytes of parts of a vector, for the .cu files.
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

/// Of a range of the vector, whose elements are counted from its begin here.
struct Pieces {
  float* copies = nullptr;
  const CopyPiece* list = nullptr;  ///< in the vector's order; those that have part in the range
  int64_t count = 0;
  int64_t first = 0;  ///< of the range, in the vector

  Pieces() = default;
  explicit Pieces(const CopiedRange& range)
      : copies(range.copies),
        list(reinterpret_cast<const CopyPiece*>(range.pieces)),
        count(range.piece_count),
        first(range.first) {}

  /// The first piece that ends after element i. A search, which waits for memory: to be made while other
  /// reads are under way.
  __device__ int64_t find(int64_t i) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (list[middle].first + list[middle].elements <= first + i)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  /// Elements from i on, as far as some piece has them; `piece` is what find(i) said.
  template <typename H, int W>
  __device__ void store(int64_t piece, int64_t i, const float (&v)[W]) const {
    if (piece == count) return;
    const CopyPiece p = list[piece];
    const int64_t at = first + i - p.first;
    H* const to = reinterpret_cast<H*>(copies + p.place);
    if constexpr (W == 4) {
      if (at >= 0 && at + W <= p.elements && at % 2 == 0) {
        if (at % W == 0) {
          store_neighbours(to + at, v);
        } else {
          const float low[2] = {v[0], v[1]}, high[2] = {v[2], v[3]};
          store_neighbours(to + at, low);
          store_neighbours(to + at + 2, high);
        }
        return;
      }
    }
#pragma unroll
    for (int k = 0; k < W; ++k) store_one<H>(piece, first + i + k, v[k]);
  }

 private:
  template <typename H>
  __device__ void store_one(int64_t piece, int64_t element, float v) const {
    while (piece < count && list[piece].first + list[piece].elements <= element) ++piece;
    if (piece == count || element < list[piece].first) return;
    cuda::store(reinterpret_cast<H*>(copies + list[piece].place) + (element - list[piece].first), v);
  }
};

}  // namespace tandem::exec::cuda

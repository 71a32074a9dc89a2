// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes in the layouts of compressed gradients (schemes/step/compression.h), for GPUs' compilers too.
#include <cstdint>

#include "base/rooms.h"

namespace tandem::schemes {

/// int8: elements that have one scale.
inline constexpr int64_t kScaledTogether = 512;

/// A tensor of a bucket, or the part of one that lies in it.
struct Factors {
  int64_t first = 0;  ///< element of the bucket
  int64_t rows = 0, columns = 1;
  int32_t rank = 0;  ///< 0: it travels as it is, as vectors do and matrices that would shrink to no less than
                     ///< half (torch.distributed's powerSGD_hook, min_compression_rate = 2)
  int64_t plain() const { return rank > 0 ? 0 : rows * columns; }  ///< words in the sum of vectors ...
  int64_t left() const { return rank > 0 ? rows * rank : rows * columns; }  ///< ... in it or that of P ...
  int64_t right() const { return columns * rank; }                          ///< ... and in that of Q
};

}  // namespace tandem::schemes

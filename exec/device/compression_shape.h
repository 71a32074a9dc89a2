// SPDX-License-Identifier: Apache-2.0
#pragma once
// Call::shape of Function::compress, orthogonalise and decompress, read once for the kernels of all backends.
#include <cstdint>
#include <vector>

#include "exec/lower/call.h"
#include "schemes/program/program.h"
#include "schemes/step/factors.h"

namespace tandem::exec {

/// As compression_call() packs it.
struct CompressionShape {
  Compression::Kind kind;
  bool feedback;
  int64_t elements, workers, kept, message;  ///< as of CompressedBucket
  std::vector<Factors> factors;
  explicit CompressionShape(const Call& c)
      : kind(static_cast<Compression::Kind>(c.shape.at(0))),
        feedback(c.shape.at(1) != 0),
        elements(c.shape.at(2)),
        workers(c.shape.at(3)),
        kept(c.shape.at(4)),
        message(c.shape.at(5)) {
    for (auto at = c.shape.begin() + 6; c.shape.end() - at >= 4; at += 4)
      factors.push_back({at[0], at[1], at[2], static_cast<int32_t>(at[3])});
  }
  /// Groups of kScaledTogether elements.
  int64_t scales() const { return (elements + kScaledTogether - 1) / kScaledTogether; }
  /// f(factors, where its part of the sums of vectors and left factors begins in the buffer, and of the sum
  /// of right ones).
  template <typename F>
  void each_factor(F f) const {
    int64_t plain = 0, left = 0, right = message;
    for (const Factors& at : factors) left += at.plain();
    for (const Factors& at : factors) {
      f(at, at.rank > 0 ? left : plain, right);
      plain += at.plain();
      left += at.left() - at.plain();
      right += at.right();
    }
  }
};

}  // namespace tandem::exec

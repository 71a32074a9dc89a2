// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transposed convolutions as the other pass of ordinary ones.
#include "base/precision.h"
#include "exec/device/cuda/kernel.h"

namespace tandem::exec::cuda {

/// A transposed convolution of any pass as the ordinary one from its output to its input: forward is the
/// gradient of that one's inputs, the gradient of its inputs is forward, and in the gradient of its weights
/// inputs and outputs change places. Its weights are those that swap_weights() makes.
Call mirrored(const Call& transposed);

/// Weights {groups x outer, taps, inner}, as convolutions have them, to {groups x inner, taps, outer}.
struct WeightSwap {
  int64_t groups, outer, taps, inner;
  /// From the transposed convolution's to mirrored()'s, or back.
  WeightSwap(const Call& transposed, bool back);
  int64_t count() const { return groups * outer * taps * inner; }
};
/// Enqueues. Formats: fp32, bf16 or fp16; both the same, or from 2 bytes to fp32.
void swap_weights(void* to, Precision to_format, const void* from, Precision from_format, const WeightSwap& s,
                  Stream stream);

}  // namespace tandem::exec::cuda

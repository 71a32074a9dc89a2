// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of numbers in 4 bytes by tiles that tensor cores multiply in tf32. Internal to the plugin and its
// tests.
#include "exec/device/cuda/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// Size of a head that the tiles hold: wider ones would leave no registers for sums.
constexpr int64_t kMostOnTensorCores = 64;

/// Attention of either pass in narrow enough heads, whole multiples of 16 bytes, without learned scores.
bool fits_tensor_cores(const AttentionShape& a);

/// FlashAttention-2 (Dao 2023, algorithms 1 and 2) without atomics: one pass gathers dq, another dk and dv,
/// in the same order always. Operands of products are rounded to tf32 (ties away from zero); scores, softmax
/// and all sums stay in fp32. For calls that fits_tensor_cores(), on compute capability 8.0 or later.
Prepared attention_on_tensor_cores(const Call& call);

}  // namespace tandem::exec::cuda

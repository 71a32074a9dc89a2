// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which attentions are given to cuDNN's fused kernels.
#include "exec/device/cuda/half.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// What cuDNN's fused attention takes (its support matrix for bf16 and fp16, version 9): everything but the
/// log sums in 2 bytes; heads of a multiple of 8 elements, at most 128; rows and heads that begin at
/// multiples of 16 bytes. Of our causal masks only the square one is the same there; windows and
/// learned scores are left to our own kernels. The backward pass of keys
/// that several heads share is asked for with copies of them (shared_keys.h): else cuDNN has only what
/// depends on timing. It may still refuse: chips before 8.0, more workspace.
inline bool fuses(const Call& call, Precision precision) {
  const bool backward = call.function == Function::attention_backward;
  if (!is_half(precision) || (call.function != Function::attention && !backward)) return false;
  const AttentionShape a(call);
  const std::size_t log_sums = backward ? 8 : 4;
  for (std::size_t k = 0; k < log_sums; ++k) {
    if (!call.half(k)) return false;
  }
  for (const int64_t n : {a.size, a.q_row, a.kv_row, a.q_offset, a.k_offset, a.v_offset}) {
    if (n % 8 != 0) return false;
  }
  if (a.window > 0 || a.buckets > 0) return false;
  if (a.size > 128 || !a.whole() || (a.causal && a.query != a.key)) return false;
  return a.heads % a.kv_heads == 0;
}

}  // namespace tandem::exec::cuda

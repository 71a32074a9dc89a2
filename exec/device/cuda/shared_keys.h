// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backward pass of attention in 2 bytes, of keys and values that several heads share (Ainslie et al.
// 2023, arXiv 2305.13245), by one whose heads have their own.
#include "base/error.h"
#include "base/precision.h"
#include "base/units.h"
#include "exec/device/cuda/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// Do several heads of this attention share keys?
inline bool shares_keys(const Call& attention) {
  const AttentionShape a(attention);
  return a.kv_heads < a.heads;
}

/// Of copies of one sample's keys and values: numbers in a row of theirs, keys first, and words of all.
inline int64_t own_key_row(const AttentionShape& a) { return 2 * a.heads * a.size; }
inline int64_t own_key_words(const AttentionShape& a) { return (a.key * own_key_row(a) / 2 + 63) / 64 * 64; }

/// The backward pass of `shared` with keys and values for every head, of that many of its samples, which
/// divide the batch, that copies and their gradients take no more than this, or of one sample.
inline Call with_own_keys(const Call& shared, Bytes most = Bytes{256 << 20}) {
  const AttentionShape a(shared);
  TANDEM_CHECK(shared.function == Function::attention_backward && a.whole() && a.heads % a.kv_heads == 0);
  int64_t samples = a.batch;
  while (samples > 1 && (a.batch % samples != 0 || 8 * samples * own_key_words(a) > most.n)) --samples;
  Call own = shared;
  own.shape = {samples,  a.heads, a.heads,        a.query,    a.key, a.size,
               a.causal, a.q_row, own_key_row(a), a.q_offset, 0,     a.heads * a.size};
  return own;
}

/// `shared` by `own` of with_own_keys(), prepared so: each head gets a copy in scratch, and the gradients of
/// copies are added up in the order of the heads. `stored`: bf16 or fp16, of all operands but the log sums.
Prepared by_own_keys(const Call& shared, const Call& own, const Prepared& prepared, Precision stored);

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of numbers in 4 bytes as batched products with softmax between, in slices of heads and queries
// whose scores stay in the cache. Internal to the plugin and its tests.
#include "exec/device/cuda/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

/// Size of a head that our own tiles (attention.cu) hold; larger ones take plain kernels.
constexpr int64_t kMostTiled = 128;

/// Of a slice's scores and copies: well within the cache of chips from 8.0 on (40 MiB of an A100, 50 of an
/// H100), so that scores are written and read there, several times each, and not in memory.
constexpr int64_t kSliceBytes = 32L << 20;

/// Attention of either pass whose keys are shared by equally many heads each, without a window or learned
/// scores.
bool multiplies(const AttentionShape& a);

/// S = q k^T, P = softmax of its rows, out = P v. Backward: S and P again, P by the kept log sums; dP = dout
/// v^T, dS = P (dP - dout . out), dv = P^T dout, dq = dS k, dk = dS^T q, added up slice after slice of a
/// head's queries in the same order always. Queries of a causal head are multiplied with the keys that a
/// slice of them sees. Asks make_product() for products; all operands are of 4 bytes.
Prepared attention_by_products(const Call& call, int64_t slice_bytes = kSliceBytes);

/// attention.cu: for each query and head dout . out, laid as the log sums are.
void inner_products(const AttentionShape& a, float* inner, const float* out, const float* dout,
                    Stream stream);

}  // namespace tandem::exec::cuda

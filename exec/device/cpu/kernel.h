// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of CPU kernels: every file of exec/device/cpu that computes adds its functions to it.
#include <array>
#include <functional>
#include <span>

#include "exec/lower/call.h"

namespace tandem::exec::cpu {

/// Runs one call; made once, run every iteration. Allocates nothing when run.
using Prepared = std::function<void(std::span<float* const> operands, const IterationState& step)>;
/// Sizes are resolved and scratch is allocated here, in the thread that will run it.
using Prepare = Prepared (*)(const Call& call, int threads);

using Table = std::array<Prepare, static_cast<std::size_t>(Function::end)>;
/// All of them; a null entry is a function that the CPU does not have.
const Table& kernels();

void add_basic(Table& table);  // basic.cpp: fill, copy, sum, column sums, update
/// Updates by optimisers that work on whole tensors (Call::tensors).
Prepared lamb(const Call& call);        // lamb.cpp
Prepared adafactor(const Call& call);   // adafactor.cpp
Prepared adamw_8bit(const Call& call);  // adamw_8bit.cpp
void add_gemm(Table& table);            // gemm.cpp
void add_conv(Table& table);            // conv.cpp
void add_pool(Table& table);            // pool.cpp
void add_softmax(Table& table);         // softmax.cpp: and losses
void add_elementwise(Table& table);  // elementwise.cpp: activations, sums, products, copies between layouts
void add_norm(Table& table);         // norm.cpp
void add_attention(Table& table);    // attention.cpp
void add_recurrent(Table& table);    // recurrent.cpp
void add_embedding(Table& table);    // embedding.cpp: and weights in fewer bits
void add_experts(Table& table);      // experts.cpp
inline void set(Table& table, Function function, Prepare prepare) {
  table[static_cast<std::size_t>(function)] = prepare;
}

/// c[m,n] = op(a) op(b) + beta c, all row by row with the given leading dimensions. One thread unless oneDNN
/// was told otherwise.
void sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
           const float* b, int64_t ldb, float beta, float* c, int64_t ldc, float alpha = 1);

/// To numbers of 2 bytes, two a word, to nearest even: fp16 or bf16. A last odd one leaves half of its word.
void narrow(float* to, const float* from, bool fp16, int64_t elements);
void upcast(float* to, const float* from, bool fp16, int64_t elements);
/// to += from, two such numbers in each of `words`; every sum is rounded.
void accumulate_half(float* to, const float* from, bool fp16, int64_t words);
/// to += from.
void accumulate(float* to, const float* from, int64_t elements);

/// Our own convolution, for tests: exact for every geometry, slow.
Prepared fallback_conv(const Call& call);

}  // namespace tandem::exec::cpu

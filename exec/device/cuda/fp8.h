// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of numbers in 1 byte.
#include <functional>

#include "exec/device/cuda/kernel.h"

namespace tandem::exec::cuda {

/// Is this gemm multiplied in fp8? Where all sizes are multiples of 16, which cuBLASLt wants, and one input
/// at least is stored in 2 bytes: what is not activations, as in recurrent steps, keeps its precision.
bool multiplies_fp8(const Call& call);

/// Prepares a gemm whose operands are {output, a, b, bias or null, back of a, back of b}: a [m, k] and b [n,
/// k] are packed rows of fp8, in e5m2 where Call::gradients has the operand, else e4m3; the result is the sum
/// of products times both backs (device memory). The output is of bf16 when call.half(0), else float; the
/// bias is of bf16, which is all that cuBLASLt takes with inputs of fp8.
using PrepareFp8 = std::function<Prepared(const Call& call)>;

/// The gemm with inputs in fp8 (Micikevicius et al. 2022, "FP8 formats for deep learning": e4m3 for
/// activations and weights, e5m2 for gradients), made of what is stored. Each operand has a scale, the power
/// of two that would have brought the largest magnitude of its last 16 launches just into the format's range
/// (delayed scaling, as NVIDIA's Transformer Engine does it; 1 at first); what is beyond is cut off, what is
/// not finite stays so. Sums are of fp32. Of a weight that a launch has as a CopiedMatrix after the operands
/// nothing is made: it was when the weight was written, which then counts as its launch.
Prepared multiply_fp8(const Call& call, const PrepareFp8& prepare);

/// Our own kernels as PrepareFp8.
Prepared fallback_fp8(const Call& call);

}  // namespace tandem::exec::cuda

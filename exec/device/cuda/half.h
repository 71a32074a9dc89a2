// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products and convolutions that read bf16 or fp16.
#include <functional>

#include "base/precision.h"
#include "exec/device/cuda/kernel.h"

namespace tandem::exec {
struct CopyWish;  // exec/device/backend.h
}
namespace tandem::exec::cuda {

/// bf16 or fp16.
constexpr bool is_half(Precision p) { return p == Precision::bf16 || p == Precision::fp16; }

/// wishes.cpp, Backend::copies: inputs and bias of products and convolutions that are multiplied in 2 bytes,
/// weights of products that are in 1.
CopyWish wants_copies(const Call& call, Precision precision);

/// Prepares a gemm or a convolution (of any pass) whose operands are {output, two inputs of 2 bytes after
/// pointers to float[, bias]}. Output and bias are of 2 bytes when call.half(0), else float.
using PrepareHalf = std::function<Prepared(const Call& call)>;

/// The call with copies in 2 bytes of those inputs that are stored in 4: those that a launch has after the
/// operands (Call::copied), else made in scratch, 256-byte aligned; sums are of 4 bytes.
Prepared multiply_half(const Call& call, Precision half, const PrepareHalf& prepare);

/// fallback.cu: our own kernels as PrepareHalf.
Prepared fallback_half(const Call& call, Precision precision);

}  // namespace tandem::exec::cuda

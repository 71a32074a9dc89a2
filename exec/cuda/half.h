#pragma once
// Products and convolutions that read bf16 or fp16: of operands stored in 4 bytes, into results of 4.
// Floor 3.
#include <functional>

#include "base/precision.h"
#include "exec/cuda/kernel.h"

namespace tandem::cuda {

/// bf16 or fp16.
constexpr bool is_half(Precision p) { return p == Precision::bf16 || p == Precision::fp16; }

/// Prepares a gemm or a convolution (of any pass) whose operands are {output of 4 bytes, two inputs of 2
/// bytes behind pointers to float[, bias of 4 bytes]}.
using PrepareHalf = std::function<Prepared(const Call& call)>;

/// The call on copies of its two inputs in 2 bytes, which lie in scratch, 256-byte aligned; sums and results
/// are of 4 bytes.
/// fp16 has 5 bits of exponent: small gradients would vanish. There each input is scaled by the power of two,
/// found on the device, that brings its largest magnitude to [2^14, 2^15), and the result is scaled back.
/// This is what a loss scale is for, tensor by tensor: it follows every iteration, also in a captured graph,
/// never overflows, and so no update is ever skipped; gradients leave as they are, whichever scheme sends
/// them. `prepare` is asked for a call without bias and "+=" then, which are added behind it.
Prepared multiply_half(const Call& call, Precision precision, const PrepareHalf& prepare);

/// plain.cu: our own kernels as PrepareHalf.
Prepared plain_half(const Call& call, Precision precision);

/// to[i] = from[i], of bf16.
void widen_bf16(float* to, const void* from, int64_t elements, Stream stream);

}  // namespace tandem::cuda

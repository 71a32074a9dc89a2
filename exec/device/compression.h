// SPDX-License-Identifier: Apache-2.0
#pragma once
// Function::compress, orthogonalise and decompress where gradients lie in host memory.
#include <cstdint>
#include <functional>
#include <span>

#include "exec/lower/call.h"
#include "schemes/step/compression.h"

namespace tandem::exec {

/// The call, which one thread at a time may run; it allocates nothing.
std::function<void(std::span<float* const> operands)> host_compression(const Call& call);
/// One of the three calls on a bucket, without operands.
Call compression_call(Function function, const CompressedBucket& bucket);

}  // namespace tandem::exec

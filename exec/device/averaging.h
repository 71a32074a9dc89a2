// SPDX-License-Identifier: Apache-2.0
#pragma once
// Function::average where parameters lie in host memory.
#include <cstdint>
#include <functional>
#include <span>

#include "exec/lower/call.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// The call, which may be run by any thread; it allocates nothing.
std::function<void(std::span<float* const> operands)> host_average(const Call& call);
/// The call of an averaging step on that many elements, without its operands.
Call average_call(const Averaging& rule, int64_t elements);

}  // namespace tandem::exec

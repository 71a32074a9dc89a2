// SPDX-License-Identifier: Apache-2.0
#pragma once
// Division of indices by a number known before the launch, for the .cu files.
#include <cstdint>

namespace tandem::exec::cuda {

/// Divides numbers from 0 up by one from 1 up.
template <typename I, bool Short = sizeof(I) == 4>
struct Divisor {
  I by = 1;
  Divisor() = default;
  explicit Divisor(I d) : by(d) {}
  __device__ I quotient(I n) const { return n / by; }
};

/// Below 2^31 by a product and a shift, in a fifth of a division's instructions (Granlund and Montgomery
/// 1994, "Division by invariant integers using multiplication", figure 4.1).
template <typename I>
struct Divisor<I, true> {
  I by = 1;
  uint32_t factor = 1, shift = 0;
  Divisor() = default;
  explicit Divisor(I d) : by(d) {
    const auto divisor = static_cast<uint32_t>(d);
    while (uint64_t{1} << shift < divisor) ++shift;
    factor = static_cast<uint32_t>(((((uint64_t{1} << shift) - divisor) << 32) / divisor) + 1);
  }
  __device__ I quotient(I n) const {
    const auto number = static_cast<uint32_t>(n);
    return static_cast<I>((static_cast<uint32_t>(uint64_t{number} * factor >> 32) + number) >> shift);
  }
};

}  // namespace tandem::exec::cuda

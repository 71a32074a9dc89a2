// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over a tensor in double precision, in an order that its length alone decides.
#include <cstdint>

namespace tandem::exec::cpu {

inline double squared(float x) { return static_cast<double>(x) * static_cast<double>(x); }

/// Of value(i), i < n: double. Any thread.
template <typename Value>
double sum_of(int64_t n, const Value& value) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int k = 0; k < kLanes; ++k) lanes[k] += value(i + k);
  }
  for (int k = 0; i < n; ++i, ++k) lanes[k] += value(i);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace tandem::exec::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Order statistics of samples.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

/// In any order; between two samples linearly (Hyndman and Fan 1996, type 7); 0 of none. O(n log n).
inline double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double at = q * static_cast<double>(v.size() - 1);
  const auto i = static_cast<std::size_t>(at);
  const double next = i + 1 < v.size() ? v[i + 1] : v[i];
  return v[i] + (next - v[i]) * (at - static_cast<double>(i));
}

inline double median(const std::vector<double>& v) { return quantile(v, 0.5); }

/// An interval of positive quantities this wide says next to nothing: its middle may be off by more than 70 %
/// either way.
inline bool says_nothing(double low, double high) { return high > 3 * low; }

}  // namespace tandem::base

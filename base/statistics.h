// SPDX-License-Identifier: Apache-2.0
#pragma once
// Order statistics of samples.
#include <algorithm>
#include <cmath>
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

/// How far two rankings of the same things agree, from -1 (reversed) to 1: Kendall's tau-b (Biometrika 33,
/// 1945), in which pairs that are equal in one of them count for neither side, over the pairs (i, k) for
/// which `counts` holds. 0 where one ranks nothing. Requires a.size() == b.size(). O(n^2).
template <typename F>
double kendall_tau(const std::vector<double>& a, const std::vector<double>& b, F counts) {
  double agree = 0, of_a = 0, of_b = 0;
  const auto sign = [](double x, double y) { return x < y ? -1 : x > y ? 1 : 0; };
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!counts(i, k)) continue;
      const int in_a = sign(a[i], a[k]), in_b = sign(b[i], b[k]);
      agree += in_a * in_b;
      of_a += std::abs(in_a);
      of_b += std::abs(in_b);
    }
  }
  return of_a > 0 && of_b > 0 ? agree / std::sqrt(of_a * of_b) : 0;
}
inline double kendall_tau(const std::vector<double>& a, const std::vector<double>& b) {
  return kendall_tau(a, b, [](std::size_t, std::size_t) { return true; });
}

/// An interval of positive quantities this wide says next to nothing: its middle may be off by more than 70 %
/// either way.
inline bool says_nothing(double low, double high) { return high > 3 * low; }

}  // namespace tandem::base

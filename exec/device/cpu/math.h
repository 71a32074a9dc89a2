// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transcendental functions without calls or branches, so that loops over them become vector code on any
// compiler.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/rooms.h"

namespace tandem::exec::cpu {

/// e^x to about 2 units in the last place; 0 below -87, finite above. Range reduction and polynomial of
/// Cephes' expf (Moshier 1989).
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0F), 88.0F);
  const float n = std::floor(x * 1.44269504F + 0.5F);
  const float r = x - n * 0.693359375F + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

inline float fast_sigmoid(float x) { return 1 / (1 + fast_exp(-x)); }

/// Absolute error below 2e-7.
inline float fast_tanh(float x) {
  const float t = fast_exp(-2 * std::abs(x));
  return std::copysign((1 - t) / (1 + t), x);
}

/// Absolute error below 3e-7: Abramowitz and Stegun 1964, 7.1.26.
inline float fast_erf(float x) {
  const float a = std::abs(x), t = 1 / (1 + 0.3275911F * a);
  const float p =
      t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  return std::copysign(1 - p * fast_exp(-a * a), x);
}

/// The largest of n >= 1 numbers: sixteen candidates side by side, which compilers turn into vector code
/// where they would not for one (it might be a NaN).
inline float largest(const float* x, int64_t n) {
  constexpr int64_t kWide = 16;
  float most[kWide];
  std::fill_n(most, kWide, x[0]);
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
#pragma omp simd
    for (int64_t k = 0; k < kWide; ++k) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
  }
  for (; i < n; ++i) most[0] = std::max(most[0], x[i]);
  return *std::max_element(most, most + kWide);
}

}  // namespace tandem::exec::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counter-based random numbers: a draw is a pure function of (seed, where it is used), so every
// evaluator, thread count and folding sees the same one.
#include <cmath>
#include <cstdint>

#include "base/rooms.h"

namespace tandem::base {

/// One step of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"):
/// a bijection of 64-bit words with good avalanche.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Hash of a seed and up to four coordinates, e.g. (role, instance, iteration, op).
constexpr uint64_t draw_bits(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
  return mix64(mix64(mix64(mix64(mix64(seed) ^ a) ^ b) ^ c) ^ d);
}

/// Uniform in [0, 1) with 53 bits.
constexpr double to_unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

/// Standard normal by Box-Muller from one hash (two uniforms are its two mixings). Never infinite.
inline double to_normal(uint64_t bits) {
  const double u = to_unit(bits) + 0x1.0p-54;
  const double v = to_unit(mix64(bits));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

/// The splitmix64 stream (state advances by the golden gamma), as the published workloads use it.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(uint64_t state) : state_(state) {}
  constexpr uint64_t next() {
    const uint64_t out = mix64(state_);
    state_ += 0x9e3779b97f4a7c15ULL;
    return out;
  }

 private:
  uint64_t state_;
};

}  // namespace tandem::base

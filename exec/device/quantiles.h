// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 256 numbers that a byte of an optimiser's state stands for, and how a block of a tensor lies in memory.
// Also for .cu files.
//
// Dynamic quantisation (Dettmers et al. 2022, arXiv 2110.02861, section 2.1, as bitsandbytes' functional.py
// makes its maps): between 10^(e-1) and 10^e there are 2^k steps, twice as many in each decade up to 1, of
// which the middles are taken; besides 0 and 1. With a sign (the first moment) there are as many below 0,
// else (the second) twice as many above.
#include <cstdint>

#include "models/optimizer.h"

namespace tandem::exec {

struct Quantiles {
  float values[256];  ///< increasing
};

constexpr Quantiles quantiles(bool with_sign) {
  Quantiles out{};
  int count = 0;
  double decade = 1e-6;
  for (int e = 0; e < 7; ++e) {
    const int steps = with_sign ? 1 << e : 2 << e;
    for (int k = 0; k < steps; ++k) {
      const double middle = decade * (0.1 + 0.9 * (k + 0.5) / steps);
      out.values[count++] = static_cast<float>(middle);
      if (with_sign) out.values[count++] = static_cast<float>(-middle);
    }
    decade = e + 1 == 6 ? 1 : decade * 10;
  }
  out.values[count++] = 0;
  out.values[count++] = 1;
  for (int i = 1; i < 256; ++i) {
    const float v = out.values[i];
    int to = i;
    for (; to > 0 && out.values[to - 1] > v; --to) out.values[to] = out.values[to - 1];
    out.values[to] = v;
  }
  return out;
}

/// The nearest of such values; of two as near the smaller. What is above 0 without a sign never becomes 0,
/// since the next step would divide by it (the zero-point problem of Li et al. 2023, arXiv 2309.01507).
constexpr uint8_t nearest(const float* values, float x) {
  int low = 0;
  for (int step = 128; step > 0; step /= 2) {
    const int next = low + step;
    if (next < 256 && x > 0.5F * (values[next - 1] + values[next])) low = next;
  }
  if (low == 0 && x > 0) low = 1;
  return static_cast<uint8_t>(low);
}

/// Where the state of a tensor begins, in words after its first: both moments in bytes, then of each block
/// the largest magnitude of both. Of small tensors both in fp32.
struct QuantisedState {
  int64_t elements;
  constexpr bool small() const { return elements < kLeastQuantised; }
  constexpr int64_t blocks() const { return (elements + kQuantised - 1) / kQuantised; }
  constexpr int64_t second() const { return small() ? elements : (elements + 3) / 4; }
  constexpr int64_t first_scales() const { return 2 * second(); }
  constexpr int64_t second_scales() const { return first_scales() + blocks(); }
};

}  // namespace tandem::exec

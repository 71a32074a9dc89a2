// SPDX-License-Identifier: Apache-2.0
// AdamW whose moments lie in bytes (exec/device/quantiles.h): blocks of 256 elements of a tensor, each with
// its own scales, are read, updated as AdamW does, and written again.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/device/cpu/kernel.h"
#include "exec/device/quantiles.h"

namespace tandem::exec::cpu {

namespace {

constexpr Quantiles kFirstMoments = quantiles(true), kSecondMoments = quantiles(false);

struct AdamRule {
  float scale, rate, unbias, keep;
  explicit AdamRule(const IterationState& s)
      : scale(s.gradient_scale),
        rate(static_cast<float>(static_cast<double>(s.learning_rate) /
                                (1 - std::pow(0.9, static_cast<double>(s.updates))))),
        unbias(static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, static_cast<double>(s.updates))))),
        keep(1 - s.learning_rate * 0.01F) {}
};

void adam_block(int64_t n, float* p, const float* g, float* m, float* v, const AdamRule& rule) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = rule.scale * g[i];
    m[i] = 0.9F * m[i] + 0.1F * x;
    v[i] = 0.999F * v[i] + 0.001F * x * x;
    p[i] = rule.keep * p[i] - rule.rate * m[i] / (std::sqrt(v[i]) * rule.unbias + 1e-8F);
  }
}

void read_block(int64_t n, const Quantiles& q, const uint8_t* bytes, float scale, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = scale * q.values[bytes[i]];
}
float write_block(int64_t n, const Quantiles& q, const float* from, uint8_t* bytes) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(from[i]));
  for (int64_t i = 0; i < n; ++i) bytes[i] = nearest(q.values, most > 0 ? from[i] / most : 0);
  return most;
}

void adamw_8bit_tensor(int64_t elements, float* p, const float* g, float* state, const AdamRule& rule) {
  const QuantisedState at{elements};
  if (at.small()) return adam_block(elements, p, g, state, state + at.second(), rule);
  auto* first = reinterpret_cast<uint8_t*>(state);
  auto* second = reinterpret_cast<uint8_t*>(state + at.second());
  float *first_scales = state + at.first_scales(), *second_scales = state + at.second_scales();
  float m[kQuantised], v[kQuantised];
  for (int64_t b = 0; b < at.blocks(); ++b) {
    const int64_t begin = b * kQuantised, n = std::min(kQuantised, elements - begin);
    read_block(n, kFirstMoments, first + begin, first_scales[b], m);
    read_block(n, kSecondMoments, second + begin, second_scales[b], v);
    adam_block(n, p + begin, g + begin, m, v, rule);
    first_scales[b] = write_block(n, kFirstMoments, m, first + begin);
    second_scales[b] = write_block(n, kSecondMoments, v, second + begin);
  }
}

}  // namespace

Prepared adamw_8bit(const Call& c) {
  return [tensors = c.tensors](std::span<float* const> o, const IterationState& s) {
    const AdamRule rule(s);
    for (const UpdatedTensor& t : tensors)
      adamw_8bit_tensor(t.elements, o[0] + t.first, o[1] + t.first, o[2] + t.state, rule);
  };
}

}  // namespace tandem::exec::cpu

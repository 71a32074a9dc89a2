// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al. 2020, arXiv 1904.00962, algorithm 2, phi(z) = z): AdamW, each tensor's step scaled by the
// ratio of the tensor's norm to the step's. Constants of the paper: 0.9, 0.999, 1e-6; decay 0.01.
#include <cmath>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/norms.h"

namespace tandem::exec::cpu {

namespace {

struct LambRule {
  float scale, unbias_m, unbias_v;
  explicit LambRule(const IterationState& s)
      : scale(s.gradient_scale),
        unbias_m(static_cast<float>(1 / (1 - std::pow(0.9, static_cast<double>(s.updates))))),
        unbias_v(static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, static_cast<double>(s.updates))))) {}
  float step(float p, float m, float v) const {
    return m * unbias_m / (std::sqrt(v) * unbias_v + 1e-6F) + 0.01F * p;
  }
};

void lamb_tensor(int64_t n, float* p, const float* g, float* m, float* v, const LambRule& rule, float rate) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = rule.scale * g[i];
    m[i] = 0.9F * m[i] + 0.1F * x;
    v[i] = 0.999F * v[i] + 0.001F * x * x;
  }
  const double weights = sum_of(n, [=](int64_t i) { return squared(p[i]); });
  const double steps = sum_of(n, [=](int64_t i) { return squared(rule.step(p[i], m[i], v[i])); });
  // Of a norm of 0 the ratio is 1, as in the authors' program.
  const bool plain = weights == 0 || steps == 0;
  const float ratio = plain ? 1 : static_cast<float>(std::sqrt(weights) / std::sqrt(steps));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] -= rate * ratio * rule.step(p[i], m[i], v[i]);
}

}  // namespace

Prepared lamb(const Call& c) {
  return [tensors = c.tensors](std::span<float* const> o, const IterationState& s) {
    for (const UpdatedTensor& t : tensors)
      lamb_tensor(t.elements, o[0] + t.first, o[1] + t.first, o[2] + t.first, o[3] + t.first, LambRule(s),
                  s.learning_rate);
  };
}

}  // namespace tandem::exec::cpu

// SPDX-License-Identifier: Apache-2.0
#include "exec/request/noise_scale.h"

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "base/statistics.h"

namespace tandem::exec {

namespace {

/// Successive steps are correlated, so blocks of them are drawn.
constexpr int64_t kBlocks = 16, kResamples = 400;

struct Sums {
  double small = 0, big = 0;
  double gradient(double s, double b) const { return (b * big - s * small) / (b - s); }
  double variance(double s, double b) const { return (small - big) / (1 / s - 1 / b); }
};

}  // namespace

std::optional<NoiseScale> noise_scale(std::span<const GradientNorms> steps, int64_t small_batch,
                                      int64_t big_batch) {
  const auto n = static_cast<int64_t>(steps.size());
  if (n < 8 || big_batch <= small_batch) return {};
  const auto s = static_cast<double>(small_batch), b = static_cast<double>(big_batch);
  const int64_t blocks = std::min(n, kBlocks);
  std::vector<Sums> block(static_cast<std::size_t>(blocks));
  Sums all;
  for (int64_t i = 0; i < n; ++i) {
    const GradientNorms& step = steps[static_cast<std::size_t>(i)];
    Sums& of = block[static_cast<std::size_t>(i * blocks / n)];
    of.small += step.small / static_cast<double>(n);
    of.big += step.big / static_cast<double>(n);
  }
  for (const Sums& of : block) all = {all.small + of.small, all.big + of.big};
  NoiseScale out{.gradient_squared = all.gradient(s, b), .variance = all.variance(s, b), .steps = n};
  if (!(out.gradient_squared > 0) || !(out.variance >= 0)) return {};
  out.samples = out.variance / out.gradient_squared;
  std::vector<double> drawn;
  for (int64_t k = 0; k < kResamples; ++k) {
    Sums sum;
    for (int64_t i = 0; i < blocks; ++i) {
      const Sums& of = block[draw_bits(0x6e6f6973, static_cast<uint64_t>(k), static_cast<uint64_t>(i)) %
                             static_cast<uint64_t>(blocks)];
      sum = {sum.small + of.small, sum.big + of.big};
    }
    const double gradient = sum.gradient(s, b);
    drawn.push_back(gradient > 0 ? std::max(0.0, sum.variance(s, b)) / gradient
                                 : std::numeric_limits<double>::max());
  }
  out.low = quantile(drawn, 0.05);
  out.high = quantile(drawn, 0.95);
  return out;
}

}  // namespace tandem::exec

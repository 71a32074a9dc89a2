// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gradient noise scale, measured: pure functions.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rooms.h"

namespace tandem::exec {

/// Squared norms of one step's mean gradients: of one worker's samples, averaged over workers, and of all
/// workers' samples together.
struct GradientNorms {
  double small = 0, big = 0;
};

struct NoiseScale {
  double samples = 0;        ///< trace of the gradients' covariance over the squared gradient: B_simple
  double low = 0, high = 0;  ///< 90 % by bootstrap over blocks of steps; high is the largest double if the
                             ///< gradient cannot be distinguished from 0
  double gradient_squared = 0, variance = 0;  ///< |G|^2, and tr(Sigma) of one sample's gradient
  int64_t steps = 0;
};

/// McCandlish et al. 2018, "An Empirical Model of Large-Batch Training": both norms' unbiased estimates are
/// averaged over the steps before they are divided. Nothing with fewer than 8 steps, if batches are equal, or
/// if noise hides the gradient. O(steps).
std::optional<NoiseScale> noise_scale(std::span<const GradientNorms> steps, int64_t small_batch,
                                      int64_t big_batch);

}  // namespace tandem::exec

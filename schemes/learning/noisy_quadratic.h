// SPDX-License-Identifier: Apache-2.0
#pragma once
// The noisy quadratic model of training (Zhang et al. 2019, "Which Algorithmic Choices Matter at Which Batch
// Sizes? Insights From a Noisy Quadratic Model"): 10,000 directions with curvature 1/i, gradients whose noise
// has a variance in proportion to the curvature, all directions equally far from the minimum at first. What
// schemes do that step models apart is linear in every direction, so that the mean squares of models, their
// anchor and its velocity follow exactly. Pure functions and plain values.
#include "schemes/learning/sync_shape.h"

namespace tandem::schemes {

/// What of the model is not its authors': fitted to one model in steps of two sizes.
struct NoisyQuadratic {
  double target = 0;  ///< the loss to reach, over that of the start
  /// Variance of the gradient of one sample over the curvature, of a start at distance 1 in each direction.
  double noise = 0;
};

/// The one in which one model, each time at its best learning rate, needs `fewest` (1 + noise / B) steps of B
/// samples, for B = noise / 16 and B = noise. `fewest` in 4 .. 1000 steps, noise > 0 samples. About 0.1 s.
NoisyQuadratic fit_quadratic(double fewest, double noise);

/// At the best learning rate, which is in units of one over the largest curvature.
struct QuadraticSteps {
  double steps = 0, learning_rate = 0;
};
/// One model in steps of that many samples.
QuadraticSteps steps_of_one(const NoisyQuadratic& q, double step_samples);
/// The shape's models: until the mean of the losses that they see themselves in a period is at the target.
/// O(steps / period).
QuadraticSteps steps_of_shape(const NoisyQuadratic& q, const SyncShape& shape);

/// In one direction, from 1 at the start: the mean square of the models' distances from the minimum in the
/// steps of that period (from 1 on). `noise`: as NoisyQuadratic's; `rate` times `curvature` in (0, 2).
/// O(period).
double quadratic_square(const SyncShape& shape, double curvature, double rate, double noise, int64_t period);

}  // namespace tandem::schemes

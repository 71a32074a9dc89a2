// SPDX-License-Identifier: Apache-2.0
#include "schemes/learning/noisy_quadratic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace tandem::tests {
namespace {

constexpr double kFewest = 100, kNoise = 320;

const NoisyQuadratic& quadratic() {
  static const NoisyQuadratic q = fit_quadratic(kFewest, kNoise);
  return q;
}

SyncShape apart(double models, double period, Averaging rule = {}) {
  SyncShape s{.step_samples = 16 * models, .models = models, .period = period, .averaging = rule};
  if (rule.rule == Averaging::Rule::elastic) s.mixing = 1 - rule.weight;
  return s;
}

TEST(NoisyQuadraticModel, OneModelNeedsWhatTheLawSays) {
  // Set at two batches; between them and somewhat beyond it is the hyperbola of the critical batch.
  for (const double b : {kNoise / 16, kNoise})
    EXPECT_NEAR(steps_of_one(quadratic(), b).steps / (kFewest * (1 + kNoise / b)), 1, 0.01) << b;
  for (const double b : {kNoise / 64, kNoise / 8, kNoise / 3, 2 * kNoise})
    EXPECT_NEAR(steps_of_one(quadratic(), b).steps / (kFewest * (1 + kNoise / b)), 1, 0.1) << b;
  // Best rates grow with the batch while noise decides.
  const double small = steps_of_one(quadratic(), kNoise / 64).learning_rate;
  EXPECT_NEAR(steps_of_one(quadratic(), kNoise / 32).learning_rate / small, 2, 0.2);
}

TEST(NoisyQuadraticModel, ModelsThatAverageEveryStepAreOne) {
  for (const double m : {2.0, 8.0}) {
    const QuadraticSteps s = steps_of_shape(quadratic(), apart(m, 1)),
                         one = steps_of_one(quadratic(), 16 * m);
    EXPECT_NEAR(s.steps / one.steps, 1, 0.01);
    // An anchor that goes all the way to the mean is none either.
    EXPECT_NEAR(steps_of_shape(quadratic(), apart(m, 1, {Averaging::Rule::momentum, 1, 0})).steps / one.steps,
                1, 0.01);
  }
}

TEST(NoisyQuadraticModel, LongerPeriodsCostMoreUntilEachModelTrainsAlone) {
  double before = steps_of_one(quadratic(), 64).steps;
  for (const double period : {2.0, 8.0, 64.0}) {
    const double steps = steps_of_shape(quadratic(), apart(4, period)).steps;
    EXPECT_GT(steps, before) << period;
    before = steps;
  }
  EXPECT_LT(before, 1.05 * steps_of_one(quadratic(), 16).steps);
  const SyncShape never{.step_samples = 64, .models = 4, .period = 1, .mixing = 1};
  EXPECT_NEAR(steps_of_shape(quadratic(), never).steps / steps_of_one(quadratic(), 16).steps, 1, 0.02);
}

TEST(NoisyQuadraticModel, APeriodBeyondTheTargetIsOneModelAlone) {
  for (const double period : {3e3, 1e5})
    EXPECT_NEAR(steps_of_shape(quadratic(), apart(4, period)).steps / steps_of_one(quadratic(), 16).steps, 1,
                0.05)
        << period;
}

TEST(NoisyQuadraticModel, PartnersThatAverageFirstSeeTheirOwnLastStep) {
  const Averaging gossip{Averaging::Rule::elastic, 0.5, 0};
  SyncShape s = apart(2, 1, gossip);
  s.mixing = 0;
  const double steps = steps_of_shape(quadratic(), s).steps;
  EXPECT_GT(steps, 1.02 * steps_of_one(quadratic(), 32).steps);
  EXPECT_LT(steps, steps_of_shape(quadratic(), apart(2, 8)).steps);
}

TEST(NoisyQuadraticModel, AnOuterMomentumTakesSmallerInnerSteps) {
  const QuadraticSteps plain = steps_of_shape(quadratic(), apart(4, 16)),
                       outer =
                           steps_of_shape(quadratic(), apart(4, 16, {Averaging::Rule::nesterov, 0.7, 0.9}));
  EXPECT_LT(outer.learning_rate, plain.learning_rate);
  EXPECT_LT(outer.steps, plain.steps);
}

/// One direction of curvature h, `runs` times: mean of half h x^2 seen by the models in the last period.
double sampled(const SyncShape& s, double h, double rate, double noise, int periods) {
  double sum = 0;
  int count = 0;
  const int models = static_cast<int>(s.models), steps = static_cast<int>(s.period);
  constexpr uint64_t kRuns = 4000;
  for (uint64_t run = 0; run < kRuns; ++run) {
    std::vector<double> x(s.models, 1.0);
    double a = 1, v = 0;
    for (int p = 0; p < periods; ++p) {
      for (int t = 0; t < steps; ++t) {
        for (int i = 0; i < models; ++i) {
          if (p == periods - 1) sum += x[i] * x[i], ++count;
          const double z =
              to_normal(draw_bits(7, run, static_cast<uint64_t>(p * steps + t), static_cast<uint64_t>(i)));
          x[i] -= rate * (h * x[i] + z * std::sqrt(noise * h * s.models / s.step_samples));
        }
      }
      double mean = 0;
      for (const double each : x) mean += each / s.models;
      v = s.averaging.weight * v + mean - a;
      a += s.averaging.rate * (mean - a + s.averaging.weight * v);
      for (double& each : x) each = a;
    }
  }
  return sum / count;
}

TEST(NoisyQuadraticModel, MeanSquaresAreThoseOfManyRuns) {
  const SyncShape s = apart(4, 3, {Averaging::Rule::nesterov, 0.7, 0.5});
  constexpr double h = 0.5, kRate = 0.3, kVariance = 20;
  for (const int periods : {1, 4, 12})
    EXPECT_NEAR(quadratic_square(s, h, kRate, kVariance, periods) / sampled(s, h, kRate, kVariance, periods),
                1, 0.04)
        << periods;
}

}  // namespace
}  // namespace tandem::tests

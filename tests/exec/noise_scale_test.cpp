// SPDX-License-Identifier: Apache-2.0
#include "exec/request/noise_scale.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "exec/execute.h"
#include "exec/request/loss_target.h"

namespace tandem::tests {
namespace {

using exec::GradientNorms;
using exec::LossTarget;
using exec::LossWatch;
using exec::noise_scale;

TEST(NoiseScale, IsExactOfExpectedNorms) {
  // |G|^2 = 2 and tr(Sigma) = 500: E |G_B|^2 = 2 + 500 / B.
  const std::vector<GradientNorms> steps(20, {2 + 500.0 / 8, 2 + 500.0 / 32});
  const auto n = noise_scale(steps, 8, 32);
  ASSERT_TRUE(n);
  EXPECT_NEAR(n->samples, 250, 1e-9);
  EXPECT_NEAR(n->gradient_squared, 2, 1e-9);
  EXPECT_NEAR(n->variance, 500, 1e-9);
  EXPECT_NEAR(n->low, 250, 1e-6);
  EXPECT_NEAR(n->high, 250, 1e-6);
}

/// Norms of the mean gradients of `workers` that have `batch` samples each, of `dimensions` normal numbers.
std::vector<GradientNorms> drawn(int64_t steps, int64_t workers, int64_t batch, int dimensions, double mean,
                                 double deviation) {
  std::vector<GradientNorms> out;
  for (int64_t s = 0; s < steps; ++s) {
    GradientNorms n;
    std::vector<double> sum(static_cast<std::size_t>(dimensions));
    for (int64_t w = 0; w < workers; ++w) {
      for (int d = 0; d < dimensions; ++d) {
        const double g = mean + deviation / std::sqrt(static_cast<double>(batch)) *
                                    to_normal(draw_bits(7, static_cast<uint64_t>(s), static_cast<uint64_t>(w),
                                                        static_cast<uint64_t>(d)));
        n.small += g * g / static_cast<double>(workers);
        sum[static_cast<std::size_t>(d)] += g / static_cast<double>(workers);
      }
    }
    for (const double g : sum) n.big += g * g;
    out.push_back(n);
  }
  return out;
}

TEST(NoiseScale, OfDrawnGradientsLiesInItsInterval) {
  // |G|^2 = 100 x 0.1^2 = 1, tr(Sigma) = 100 x 3^2.
  const auto n = noise_scale(drawn(400, 4, 16, 100, 0.1, 3), 16, 64);
  ASSERT_TRUE(n);
  EXPECT_LT(n->low, 900);
  EXPECT_GT(n->high, 900);
  EXPECT_NEAR(n->samples, 900, 100);
}

TEST(NoiseScale, OfNoiseAloneIsNotTold) {
  EXPECT_FALSE(noise_scale(std::vector<GradientNorms>(20, {4, 1}), 8, 32)) << "a sum of 4 that is noise";
  EXPECT_FALSE(noise_scale(std::vector<GradientNorms>(7, {4, 3}), 8, 32)) << "too few steps";
  EXPECT_FALSE(noise_scale(std::vector<GradientNorms>(20, {4, 3}), 8, 8)) << "one batch";
}

exec::Execution training(const Graph& graph, const ResolvedScheme& scheme, const Dataset& data,
                         int64_t workers) {
  exec::Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.job.batch = 16;
  e.job.optimizer = &optimizer("sgd");
  e.backend = &backends_registry().at("cpu");
  e.cluster = {workers, 1, workers};
  e.data = &data;
  e.iterations = 60;
  e.rate.base = 0.1;
  return e;
}

TEST(NoiseScale, IsMeasuredOnWorkersOfAnAllReduce) {
  const Graph graph = Graph::load("digits-mlp");
  const Dataset data = exec::load_dataset("teacher:samples=4096", false);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  exec::Keep keep;
  keep.norms = true;
  const ExecutionResult r = execute(training(graph, scheme, data, 4), keep);
  ASSERT_EQ(r.norms.size(), 57U) << "of steady steps";
  for (const GradientNorms& n : r.norms) {
    EXPECT_GT(n.big, 0);
    EXPECT_GE(n.small, n.big * (1 - 1e-5)) << "the mean of vectors is no longer than they are in the mean";
  }
  ASSERT_TRUE(noise_scale(r.norms, 16, 64));
  const ResolvedScheme async = resolve_scheme("parameter-server:mode=async", {});
  EXPECT_THROW(execute(training(graph, async, data, 2), keep), InputError);
  EXPECT_THROW(execute(training(graph, scheme, data, 1), keep), InputError);
}

TEST(LossTarget, IsTheMeanOfAWindow) {
  LossWatch watch({1.0, 32});
  EXPECT_FALSE(watch.add(0.5, 16)) << "the window is not full";
  EXPECT_FALSE(watch.add(1.6, 16));
  EXPECT_FALSE(watch.samples());
  EXPECT_TRUE(watch.add(0.4, 16));
  EXPECT_EQ(watch.samples(), 48);
  EXPECT_TRUE(watch.add(9, 16)) << "once there it stays there";
  EXPECT_EQ(watch.samples(), 48);
}

TEST(LossTarget, CountsSamplesOfUnevenBatches) {
  LossWatch watch({1.0, 32});
  EXPECT_FALSE(watch.add(1.1, 31)) << "the window is not full";
  EXPECT_FALSE(watch.add(0.9, 2)) << "31 of 33 samples are above it";
  EXPECT_TRUE(watch.add(0.9, 30)) << "and now all of 32 are below";
  EXPECT_EQ(watch.samples(), 63);
}

TEST(LossTarget, EndsARun) {
  const Graph graph = Graph::load("digits-mlp");
  const Dataset data = exec::load_dataset("digits", false);
  for (const char* name : {"allreduce", "allreduce:accumulate=2", "parameter-server:mode=async", "local-sgd",
                           "gossip", "diloco:every=4,outer-rate=1,outer-momentum=0"}) {
    const ResolvedScheme scheme = resolve_scheme(name, {});
    exec::Execution e = training(graph, scheme, data, 2);
    e.iterations = 2000;
    e.target = LossTarget{1.0, 128};
    const ExecutionResult r = execute(e);
    ASSERT_TRUE(r.samples_to_target) << name;
    EXPECT_LT(*r.samples_to_target, 32 * 1000) << name;
    EXPECT_EQ(*r.samples_to_target % 16, 0) << name;
    EXPECT_GT(r.seconds_to_target, 0) << name;
    EXPECT_LE(*r.samples_to_target, 32 * static_cast<int64_t>(r.losses.size() + 2) * 2) << name;
  }
}

TEST(TeacherData, IsTheSameEveryTimeAndHasTheStatedNoise) {
  const Dataset a = exec::load_dataset("teacher:samples=2000,inputs=16,noise=0.3", false),
                b = exec::load_dataset("teacher:samples=2000,inputs=16,noise=0.3", false),
                clean = exec::load_dataset("teacher:samples=2000,inputs=16,noise=0", false);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.values, clean.values);
  int64_t wrong = 0;
  for (std::size_t i = 0; i < a.labels.size(); ++i) wrong += a.labels[i] != clean.labels[i] ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(wrong) / 2000, 0.3 * 9 / 10, 0.04);
  const Dataset held_out = exec::load_dataset("teacher:samples=2000,inputs=16", true);
  EXPECT_EQ(held_out.samples(), 500);
  double first = 0, last = 0;  // deviations of 1 and 16^-0.5
  for (int64_t s = 0; s < 2000; ++s) {
    first += std::pow(a.values[static_cast<std::size_t>(s * 16)], 2) / 2000;
    last += std::pow(a.values[static_cast<std::size_t>(s * 16 + 15)], 2) / 2000;
  }
  EXPECT_NEAR(first, 1, 0.1);
  EXPECT_NEAR(last, 1.0 / 16, 0.01);
  EXPECT_THROW(exec::load_dataset("teacher:sample=3", false), InputError);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "schemes/learning/progress.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

SyncShape shape(std::string_view scheme, int64_t workers, int64_t nodes = 1) {
  return sync_shape(compile(scheme, small_mlp(), {workers, nodes, workers / nodes}));
}

double relative(const SyncShape& s, double delay, double noise, double fewest = 100) {
  return steps_needed(s, delay, noise, fewest).relative;
}

TEST(Progress, OfBatchesIsTheHyperbolaOfTheCriticalBatch) {
  // McCandlish et al. 2018: (S / Smin - 1) (E / Emin - 1) = 1 with Emin = noise Smin.
  constexpr double kNoise = 300;
  for (const double b : {1.0, 30.0, 300.0, 5000.0}) {
    const SyncShape s{.step_samples = b};
    const double steps = relative(s, 0, kNoise), samples = b * steps / kNoise;
    EXPECT_NEAR((steps - 1) * (samples - 1), 1, 1e-9) << b;
    // The best rate is half of the largest at the critical batch.
    EXPECT_NEAR(steps_needed(s, 0, kNoise, 100).learning_rate_share, 1 / (1 + kNoise / b), 1e-12);
  }
  EXPECT_DOUBLE_EQ(relative({.step_samples = 300}, 0, kNoise), 2);
  EXPECT_DOUBLE_EQ(relative({.step_samples = 300}, 0, 0), 1) << "without noise a batch buys nothing";
}

TEST(Progress, FewestStepsAreThoseThatGiveTheMeasuredSamples) {
  const double fewest = fewest_steps(40'000, 32, 300);
  EXPECT_NEAR(32 * fewest * relative({.step_samples = 32}, 0, 300, fewest), 40'000, 1e-6);
}

TEST(Progress, ADelayCostsWhatCurvatureLimitsAndNoMore) {
  // Asynchronous workers of batch b are W - 1 steps late: as many samples as synchronous ones of batch W b.
  constexpr double kNoise = 500, kWorkers = 8, b = 16;
  const double apart = b * relative({.step_samples = b}, kWorkers - 1, kNoise),
               together = kWorkers * b * relative({.step_samples = kWorkers * b}, 0, kNoise);
  EXPECT_NEAR(apart, together, 1e-9);
  // Below the critical delay noise / B it costs less than half.
  const SyncShape s{.step_samples = 10};
  EXPECT_LT(relative(s, 50, kNoise), 2 * relative(s, 0, kNoise));
  EXPECT_GT(relative(s, 60, kNoise), 2 * relative(s, 0, kNoise));
}

TEST(Progress, ModelsApartCostUpToTheirNumberInNoise) {
  SyncShape s{.step_samples = 64, .models = 4, .period = 1};
  EXPECT_NEAR(relative(s, 0, 640), 11, 0.1) << "averaged every step: summed gradients";
  double before = 11;
  for (const double period : {4.0, 16.0, 256.0}) {
    s.period = period;
    const double now = relative(s, 0, 640);
    EXPECT_GT(now, before);
    EXPECT_LT(now, 1.1 * relative({.step_samples = 16}, 0, 640)) << "each alone";
    before = now;
  }
  EXPECT_NEAR(relative(s, 0, 0), 1, 0.02) << "without noise they stay alike";
  s.period = 4;
  EXPECT_LT(relative(s, 0, 640), 1 + 10 * (1 + 4 * 3 / 11.0)) << "the bound of Wang and Joshi 2021";
  for (const double noise : {1e-9, 1e12}) EXPECT_TRUE(std::isfinite(relative(s, 0, noise, 1e9))) << noise;
  EXPECT_TRUE(std::isfinite(relative(s, 0, 640, 1e-3)));
}

TEST(Progress, PostLocalStepsAreTogetherAtFirst) {
  SyncShape s{.step_samples = 64, .models = 4, .period = 8};
  const double apart = relative(s, 0, 640);
  s.apart_from = 2000;
  EXPECT_NEAR(relative(s, 0, 640), 11, 0.3) << "the target comes first";
  s.apart_from = 600;
  EXPECT_GT(relative(s, 0, 640), 11);
  EXPECT_LE(relative(s, 0, 640), apart);
}

TEST(Progress, ShapesOfSchemesThatSumGradients) {
  EXPECT_EQ(shape("allreduce", 4).step_samples, 128);
  EXPECT_EQ(shape("allreduce", 4).models, 1);
  EXPECT_EQ(shape("allreduce:accumulate=8", 4).step_samples, 1024);
  EXPECT_EQ(shape("zero:stage=3", 4).step_samples, 128);
  EXPECT_EQ(shape("zero:stage=3", 4).models, 1);
  EXPECT_EQ(shape("parameter-server", 4).step_samples, 128);
  EXPECT_EQ(shape("parameter-server:mode=async", 4).step_samples, 32);
  EXPECT_EQ(shape("parameter-server:mode=softsync,n=2", 4).step_samples, 64);
  EXPECT_EQ(shape("parameter-server:mode=backup,backup=1", 4).step_samples, 96);
}

TEST(Progress, DelayIsStatedOrCounted) {
  Histogram counted;
  counted.add(3);
  counted.add(5);
  Program p;
  EXPECT_EQ(mean_delay(p, counted), 0) << "no store counts";
  p.stores.emplace_back();
  EXPECT_EQ(mean_delay(p, counted), 4);
  p.stores[0].averaging.rule = Averaging::Rule::elastic;
  EXPECT_EQ(mean_delay(p, counted), 0) << "what is exchanged are models";
  p.delay = 7;
  EXPECT_EQ(mean_delay(p, counted), 7);
}

TEST(Progress, ShapesOfSchemesThatAverage) {
  const SyncShape local = shape("local-sgd:every=8", 4);
  EXPECT_EQ(local.step_samples, 128);
  EXPECT_EQ(local.models, 4);
  EXPECT_EQ(local.period, 8);
  EXPECT_EQ(local.mixing, 0);
  const SyncShape diloco = shape("diloco:every=50,outer-rate=0.7,outer-momentum=0.9", 4);
  EXPECT_EQ(diloco.period, 50);
  EXPECT_EQ(diloco.averaging, (Averaging{Averaging::Rule::nesterov, 0.7, 0.9}));
  const SyncShape post = shape("post-local-sgd:after=30,every=4", 4);
  EXPECT_EQ(post.apart_from, 30);
  EXPECT_EQ(post.period, 4);
  // Workers move by a share of 0.9 / 4 to the centre.
  EXPECT_NEAR(shape("elastic-averaging:every=10,rate=0.9", 4).mixing, 1 - 0.9 / 4, 1e-9);
  EXPECT_NEAR(shape("elastic-averaging:every=10,rate=0.9,mode=async", 4).mixing, 1 - 0.9 / 4, 1e-9);
  EXPECT_EQ(shape("elastic-averaging:every=10,mode=async", 4).period, 10);
  EXPECT_NEAR(shape("elastic-averaging:every=10,rate=0.9,mode=async", 4).averaging.rate, 0.9, 1e-9);
  // A round of all workers' movements is one step of the outer optimiser.
  const SyncShape nodes = shape("async-diloco:every=20,outer-rate=0.5,outer-momentum=0.8", 4);
  EXPECT_EQ(nodes.period, 20);
  EXPECT_EQ(nodes.models, 4);
  EXPECT_EQ(nodes.averaging, (Averaging{Averaging::Rule::nesterov, 0.5, 0.8}));
  EXPECT_EQ(shape("parameter-averaging:through=cpu,every=5", 4).averaging.rule, Averaging::Rule::none);
  EXPECT_EQ(shape("parameter-averaging:through=cpu,every=5", 4).mixing, 0);
  // Two partners are alike behind each average; of four an exchange leaves 2/3 of the squared distance.
  EXPECT_EQ(shape("gossip", 2).mixing, 0);
  EXPECT_NEAR(shape("gossip", 4).mixing, std::pow(2.0 / 3, 2), 1e-9);
  EXPECT_EQ(shape("local-sgd:every=8", 1).models, 1) << "alone nothing is averaged";
}

TEST(Progress, JsonGivesItBack) {
  TrainingProgress p;
  p.target = TrainingProgress::Target::tokens;
  p.value = 3e11;
  p.samples = 1e9;
  p.delay = 2.5;
  p.noise_scale = 42;
  p.noise_source = "a test";
  p.unknown = {"much"};
  const TrainingProgress q = read_progress(Json::parse(progress_json(p).dump(), "progress.json"));
  EXPECT_EQ(q.target, p.target);
  EXPECT_EQ(q.value, p.value);
  EXPECT_EQ(q.samples, p.samples);
  EXPECT_EQ(q.seconds, std::nullopt);
  EXPECT_EQ(q.delay, p.delay);
  EXPECT_EQ(q.noise_scale, p.noise_scale);
  EXPECT_EQ(q.noise_source, p.noise_source);
  EXPECT_EQ(q.unknown, p.unknown);
}

}  // namespace
}  // namespace tandem::tests

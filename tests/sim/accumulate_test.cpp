// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation: several micro-batches make one step.
#include <gtest/gtest.h>

#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

Report predicted(const std::string& scheme, int64_t devices, std::optional<Anchor> anchor = {}) {
  static const Graph graph = Graph::load("vgg16");
  static const System system = System::load("p3.8xlarge");
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Request p = prediction_of(graph, system, resolved, devices, 16);
  p.disturbance = Disturbance{};
  p.anchor = anchor;
  return simulate(p);
}

TEST(Accumulate, AStepCountsTheSamplesOfAllItsMicroBatches) {
  for (const int64_t devices : {1, 4}) {
    const Report once = predicted("allreduce", devices), four = predicted("allreduce:accumulate=4", devices);
    EXPECT_EQ(once.setup.samples_per_iteration, 16 * devices);
    EXPECT_EQ(four.setup.samples_per_iteration, 4 * 16 * devices);
    EXPECT_NEAR(four.rate.samples_per_second * four.iteration.median, 64.0 * static_cast<double>(devices),
                1e-6);
    // It reduces and updates once for four: faster, but a device computes no sample faster for it.
    EXPECT_GT(four.rate.samples_per_second, once.rate.samples_per_second);
    EXPECT_GT(four.iteration.median, 3 * predicted("allreduce", 1).iteration.median);
  }
}

/// FSDP's micro-batches communicate as much as steps do, but update once; every device holds shares alone.
TEST(Accumulate, ShardedGradientsAreReducedInEveryMicroBatch) {
  const Report once = predicted("zero:stage=3", 4), four = predicted("zero:stage=3,accumulate=4", 4),
               whole = predicted("allreduce:accumulate=4", 4);
  EXPECT_GT(four.rate.samples_per_second, once.rate.samples_per_second);
  EXPECT_LT(four.rate.samples_per_second, whole.rate.samples_per_second);
  EXPECT_GT(four.time.share.exposed_communication, 3 * whole.time.share.exposed_communication);
  EXPECT_EQ(four.memory.gradients, once.memory.gradients);
  // The shares stay from one micro-batch to the next, beside the activations.
  EXPECT_GE(four.memory.total(), once.memory.total());
  EXPECT_LE(four.memory.total(), once.memory.total() + once.memory.gradients);
  EXPECT_NEAR(static_cast<double>(whole.memory.gradients.n) / static_cast<double>(four.memory.gradients.n), 4,
              1e-6);
}

/// An average of parameters that comes more rarely than the iterations that steady figures need is still
/// counted.
TEST(Accumulate, RareCollectivesAreWaitedFor) {
  const Report never = predicted("local-sgd:every=2000", 4), rare = predicted("local-sgd:every=40", 4);
  const Report often = predicted("local-sgd:every=1", 4);
  const double exchange = often.iteration.median - never.iteration.median;
  EXPECT_GT(exchange, 0);
  const auto step = [](const Report& r) {
    return static_cast<double>(r.setup.samples_per_iteration) / r.rate.samples_per_second;
  };
  EXPECT_NEAR(step(rare) - step(never), exchange / 40, 0.1 * exchange / 40);
}

/// An anchor is a rate of samples, however many of them make a step.
TEST(Accumulate, AnAnchorOfItsOwnRateChangesNothing) {
  const Report plain = predicted("allreduce", 1), four = predicted("allreduce:accumulate=4", 4);
  const Report anchored = predicted("allreduce:accumulate=4", 4, Anchor{plain.rate.samples_per_second, 1});
  // A step of four micro-batches saves three updates, so its kernels may take a little longer for that rate.
  EXPECT_NEAR(anchored.rate.samples_per_second / four.rate.samples_per_second, 1, 0.15);
  const Report own = predicted("allreduce:accumulate=4", 4, Anchor{four.rate.samples_per_second, 4});
  EXPECT_NEAR(own.rate.samples_per_second / four.rate.samples_per_second, 1, 1e-3);
  EXPECT_NEAR(own.iteration.median / four.iteration.median, 1, 1e-3);
}

}  // namespace
}  // namespace tandem::tests

// Gradient accumulation: several micro-batches make one step.
#include <gtest/gtest.h>

#include "sim/simulate.h"

namespace tandem {
namespace {

Report predicted(const std::string& scheme, int64_t devices, std::optional<Anchor> anchor = {}) {
  static const Graph graph = Graph::load("vgg16");
  static const System system = System::load("p3.8xlarge");
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Prediction p;
  p.graph = &graph;
  p.system = &system;
  p.scheme = &resolved;
  p.devices = devices;
  p.batch = 16;
  p.optimizer = &optimizer("momentum");
  p.input = false;
  p.disturbance = Disturbance{};
  p.anchor = anchor;
  return simulate(p);
}

TEST(Accumulate, AStepCountsTheSamplesOfAllItsMicroBatches) {
  for (const int64_t devices : {1, 4}) {
    const Report once = predicted("allreduce", devices), four = predicted("allreduce:accumulate=4", devices);
    EXPECT_EQ(once.samples_per_iteration, 16 * devices);
    EXPECT_EQ(four.samples_per_iteration, 4 * 16 * devices);
    EXPECT_NEAR(four.samples_per_second * four.iteration_median, 64.0 * static_cast<double>(devices), 1e-6);
    // It reduces and updates once for four: faster, but a device computes no sample faster for it.
    EXPECT_GT(four.samples_per_second, once.samples_per_second);
    EXPECT_GT(four.iteration_median, 3 * predicted("allreduce", 1).iteration_median);
  }
}

/// An anchor is a rate of samples, however many of them make a step.
TEST(Accumulate, AnAnchorOfItsOwnRateChangesNothing) {
  const Report plain = predicted("allreduce", 1), four = predicted("allreduce:accumulate=4", 4);
  const Report anchored = predicted("allreduce:accumulate=4", 4, Anchor{plain.samples_per_second, 1});
  // A step of four micro-batches saves three updates, so its kernels may take a little longer for that rate.
  EXPECT_NEAR(anchored.samples_per_second / four.samples_per_second, 1, 0.15);
  const Report own = predicted("allreduce:accumulate=4", 4, Anchor{four.samples_per_second, 4});
  EXPECT_NEAR(own.samples_per_second / four.samples_per_second, 1, 1e-3);
  EXPECT_NEAR(own.iteration_median / four.iteration_median, 1, 1e-3);
}

}  // namespace
}  // namespace tandem

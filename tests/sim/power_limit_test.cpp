// SPDX-License-Identifier: Apache-2.0
// Power limits of devices in predictions: what is slowed, how much wider the interval gets, what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/graph.h"
#include "schemes/setup/scheme.h"
#include "sim/intervals.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// VGG-16 on V100 of 250 W, which waits for nothing on one device.
Report limited(const System::Sets& sets, int64_t devices = 1, const std::string& profile = "stock",
               int64_t batch = 64) {
  static const Graph graph = Graph::load("vgg16");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const System system = System::load("v100-pcie-8x", sets);
  Request p = prediction_of(graph, system, scheme, devices, batch);
  p.profile = profile;
  p.disturbance.emplace();  // no jitter
  return simulate(p);
}

TEST(PowerLimit, SlowsComputeByTheCurve) {
  const Report plain = limited({}), slow = limited({{"devices.*.power_limit", "175W"}});
  ASSERT_GT(plain.time.share.compute, 0.999);
  EXPECT_NEAR(slow.rate.samples_per_second / plain.rate.samples_per_second, 0.904, 1e-4);
  const Report same = limited({{"devices.*.power_limit", "250W"}});
  EXPECT_EQ(same.rate.samples_per_second, plain.rate.samples_per_second);
  EXPECT_EQ(same.notes, plain.notes);
}

TEST(PowerLimit, SlowsMeasuredKernelsToo) {
  const std::string profile = std::string(TANDEM_ROOT) + "/tests/sim/device_profile.json";
  const Report plain = limited({}, 1, profile),
               slow = limited({{"devices.*.power_limit", "175W"}}, 1, profile);
  EXPECT_NEAR(slow.rate.samples_per_second / plain.rate.samples_per_second, 0.904, 0.01);
}

TEST(PowerLimit, LeavesCommunicationAlone) {
  const Report plain = limited({}, 8, "stock", 2),
               slow = limited({{"devices.*.power_limit", "175W"}}, 8, "stock", 2);
  const double computes = plain.time.share.compute;
  ASSERT_LT(computes, 0.9);
  // A longer backward pass hides more of it, never less.
  EXPECT_GT(slow.rate.samples_per_second / plain.rate.samples_per_second, 0.904);
  EXPECT_LE(1 / slow.rate.samples_per_second,
            (1 / plain.rate.samples_per_second) * (1 - computes + computes / 0.904) * (1 + 1e-9));
}

TEST(PowerLimit, OfOneDeviceMakesAllWaitForIt) {
  const Report one = limited({{"devices.gpu3.power_limit", "150W"}}, 4),
               all = limited({{"devices.*.power_limit", "150W"}}, 4);
  EXPECT_NEAR(one.rate.samples_per_second / all.rate.samples_per_second, 1, 0.01);
  EXPECT_GT(one.time.share.waiting, 0.05);
}

TEST(PowerLimit, WidensTheIntervalByTheBoundsOfTheCurve) {
  const Report plain = limited({}), slow = limited({{"devices.*.power_limit", "175W"}});
  const auto at = std::find_if(slow.rate.errors.begin(), slow.rate.errors.end(), [](const ErrorSource& e) {
    return e.source == "v100-pcie at 70 % of its rated power";
  });
  ASSERT_NE(at, slow.rate.errors.end());
  EXPECT_NEAR(at->sigma, std::log(0.904 / 0.881) / 1.645, 1e-4);
  EXPECT_NEAR(at->sigma_above(), std::log(0.946 / 0.904) / 1.645, 1e-4);
  const auto below = [](const Report& r) { return r.rate.interval.low / r.rate.samples_per_second; };
  const auto above = [](const Report& r) { return r.rate.interval.high / r.rate.samples_per_second; };
  EXPECT_LT(below(slow), below(plain));
  EXPECT_GT(above(slow), above(plain));
}

TEST(PowerLimit, SaysWhoseCurveItIs) {
  EXPECT_THAT(limited({{"devices.*.power_limit", "175W"}}).notes,
              Contains(HasSubstr("as measured on V100 in training (Zeus, 2023)")));
}

}  // namespace
}  // namespace tandem::tests

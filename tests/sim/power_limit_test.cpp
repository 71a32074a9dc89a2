// SPDX-License-Identifier: Apache-2.0
// Power limits of devices in predictions: what is slowed, how much wider the interval gets, what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/graph.h"
#include "schemes/setup/scheme.h"
#include "sim/intervals.h"
#include "tests/sim/prediction.h"
#include "topologies/devices/device_power.h"

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

/// Products take as much longer as the clock is lower, all else as long as before.
TEST(PowerLimit, SlowsProductsByTheClock) {
  const Report plain = limited({}), slow = limited({{"devices.*.power_limit", "175W"}});
  ASSERT_GT(plain.time.share.compute, 0.999);
  double products = 0, streams = 0;
  for (const KernelShare& kind : plain.time.kernels)
    (kind.kind == "conv" || kind.kind == "gemm" ? products : streams) += kind.share;
  Device v100 = Device::load("v100-pcie");
  v100.power_share = 0.7;
  const double clock = topologies::PowerModel(v100).clock(products, streams);
  EXPECT_NEAR(plain.rate.samples_per_second / slow.rate.samples_per_second, products / clock + streams, 1e-3);
  const Report same = limited({{"devices.*.power_limit", "250W"}});
  EXPECT_EQ(same.rate.samples_per_second, plain.rate.samples_per_second);
  EXPECT_EQ(same.notes, plain.notes);
}

TEST(PowerLimit, SlowsMeasuredKernelsToo) {
  const std::string profile = std::string(TANDEM_ROOT) + "/tests/sim/device_profile.json";
  const Report plain = limited({}, 1, profile),
               slow = limited({{"devices.*.power_limit", "175W"}}, 1, profile);
  EXPECT_LT(slow.rate.samples_per_second / plain.rate.samples_per_second, 0.97);
  EXPECT_GT(slow.rate.samples_per_second / plain.rate.samples_per_second, 0.8);
}

TEST(PowerLimit, LeavesCommunicationAlone) {
  const Report plain = limited({}, 8, "stock", 2),
               slow = limited({{"devices.*.power_limit", "175W"}}, 8, "stock", 2),
               alone = limited({}, 1, "stock", 2),
               alone_slow = limited({{"devices.*.power_limit", "175W"}}, 1, "stock", 2);
  const double computes = plain.time.share.compute;
  ASSERT_LT(computes, 0.9);
  const double slowed = alone_slow.rate.samples_per_second / alone.rate.samples_per_second;
  // A longer backward pass hides more of it, never less.
  EXPECT_GT(slow.rate.samples_per_second / plain.rate.samples_per_second, slowed);
  EXPECT_LE(1 / slow.rate.samples_per_second,
            (1 / plain.rate.samples_per_second) * (1 - computes + computes / slowed) * (1 + 1e-3));
}

TEST(PowerLimit, OfOneDeviceMakesAllWaitForIt) {
  const Report one = limited({{"devices.gpu3.power_limit", "150W"}}, 4),
               all = limited({{"devices.*.power_limit", "150W"}}, 4);
  EXPECT_NEAR(one.rate.samples_per_second / all.rate.samples_per_second, 1, 0.01);
  EXPECT_GT(one.time.share.waiting, 0.05);
}

TEST(PowerLimit, WidensTheIntervalByWhatIsNotKnownOfIt) {
  const Report plain = limited({}), slow = limited({{"devices.*.power_limit", "175W"}});
  const auto at = std::find_if(slow.rate.errors.begin(), slow.rate.errors.end(), [](const ErrorSource& e) {
    return e.source == "v100-pcie at 70 % of its rated power";
  });
  ASSERT_NE(at, slow.rate.errors.end());
  const double speed = slow.rate.samples_per_second / plain.rate.samples_per_second;
  EXPECT_NEAR(at->sigma, topologies::PowerModel(Device::load("v100-pcie")).speed_error(speed), 1e-4);
  const auto below = [](const Report& r) { return r.rate.interval.low / r.rate.samples_per_second; };
  EXPECT_LT(below(slow), below(plain));
}

/// Whoever waits for a limited device, waits as long as it computes.
TEST(PowerLimit, IsAsDoubtfulForThoseThatWait) {
  const Report one = limited({{"devices.gpu3.power_limit", "150W"}}, 4),
               all = limited({{"devices.*.power_limit", "150W"}}, 4);
  const auto per_share = [](const Report& r) {
    for (const ErrorSource& e : r.rate.errors) {
      if (e.source == "v100-pcie at 60 % of its rated power")
        return e.sigma / (r.time.share.compute + r.time.share.waiting);
    }
    return 0.0;
  };
  ASSERT_GT(one.time.share.waiting, 0.05);
  EXPECT_GT(per_share(all), 0);
  EXPECT_NEAR(per_share(one), per_share(all), 1e-9);
}

TEST(PowerLimit, SaysWhoseFiguresTheseAre) {
  EXPECT_THAT(limited({{"devices.*.power_limit", "175W"}}).notes,
              Contains(HasSubstr("by clocks and voltages of V100 (Zeus, 2023)")));
}

/// Energy of a step: of all devices, for as long as it takes.
TEST(PowerOfDevices, IsInTheReport) {
  const Report one = limited({}, 1, "stock", 2), eight = limited({}, 8, "stock", 2);
  ASSERT_TRUE(one.time.power && eight.time.power);
  EXPECT_LT(one.time.power->watts, 250);
  EXPECT_GT(one.time.power->watts, 150);
  EXPECT_LT(eight.time.power->watts, one.time.power->watts);  // they wait for gradients
  EXPECT_LE(one.time.power->low, one.time.power->watts);
  EXPECT_LE(one.time.power->watts, one.time.power->high);
  EXPECT_NEAR(eight.time.power->joules_per_step,
              eight.time.power->watts * 8 * 16 / eight.rate.samples_per_second, 1e-6);
  EXPECT_NEAR(eight.time.power->joules_per_sample * 16, eight.time.power->joules_per_step, 1e-6);
  double sum = 0;
  for (const auto& [name, share] : eight.time.power->parts) sum += share;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_EQ(one.time.power->parts.front().first, "conv");
  const auto communication = [](const auto& part) { return part.first == "communication"; };
  EXPECT_TRUE(std::any_of(eight.time.power->parts.begin(), eight.time.power->parts.end(), communication));
  EXPECT_FALSE(std::any_of(one.time.power->parts.begin(), one.time.power->parts.end(), communication));
}

/// The same job with a slow device: whichever it is, what the devices draw lies within both intervals.
TEST(PowerOfDevices, HasAWideIntervalWhereWorkerZeroIsNotLikeOthers) {
  const Report first = limited({{"faults.gpu0", "0.3"}}, 8), last = limited({{"faults.gpu7", "0.3"}}, 8);
  ASSERT_TRUE(first.time.power && last.time.power);
  EXPECT_NEAR(first.rate.samples_per_second / last.rate.samples_per_second, 1, 0.02);
  EXPECT_GT(first.time.power->watts, last.time.power->watts);
  EXPECT_LT(first.time.power->low, last.time.power->watts);
  EXPECT_GT(last.time.power->high, first.time.power->watts);
}

TEST(PowerOfDevices, OfProcessorsIsNotKnown) {
  const Graph graph = Graph::load("lenet5");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const System system = System::load("skylake-opa");
  EXPECT_FALSE(simulate(prediction_of(graph, system, scheme, 1, 8)).time.power);
}

}  // namespace
}  // namespace tandem::tests

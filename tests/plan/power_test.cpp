// SPDX-License-Identifier: Apache-2.0
// What machines draw: common sense. Published watts are compared in tests/calibration/validate_runs_test.cpp.
#include "plan/power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/data.h"

namespace tandem::tests {
namespace {

using namespace plan;

Report report_of(int64_t devices, double computing, double communicating) {
  Report out;
  out.setup.devices = devices;
  out.time.share.compute = computing;
  out.time.share.exposed_communication = communicating;
  out.time.share.waiting = 1 - computing - communicating;
  // As most models' steps divide.
  out.time.kernels = {{"gemm", "forward", 0.7 * computing, 0},
                      {"elementwise", "forward", 0.3 * computing, 0}};
  return out;
}

TEST(Power, OfABusyH100ServerIsAsMeasured) {
  const System system = System::load("dgx-h100");
  const double busy = power_of(report_of(8, 0.98, 0.01), system).wall().value;
  EXPECT_GT(busy, 6859);  // the least and the most of six runs there
  EXPECT_LT(busy, 7208);
  const double idle = idle_power(system, 1).wall().value;
  EXPECT_NEAR(idle, 2190, 150);
}

TEST(Power, FallsWhereDevicesWait) {
  const System system = System::load("dgx-a100");
  double before = power_of(report_of(8, 1, 0), system).wall().value;
  for (double computing = 0.8; computing > 0; computing -= 0.2) {
    const Power power = power_of(report_of(8, computing, (1 - computing) / 2), system);
    EXPECT_LT(power.wall().value, before);
    EXPECT_LE(power.wall().low, power.wall().value);
    EXPECT_LE(power.wall().value, power.wall().high);
    before = power.wall().value;
  }
  EXPECT_GT(before, idle_power(system, 1).wall().value);
}

TEST(Power, OfSeveralNodesHasSwitches) {
  const System one = System::load("dgx-h100"), eight = System::load("dgx-h100", {{"nodes", "8"}});
  const Power single = power_of(report_of(8, 1, 0), one), all = power_of(report_of(64, 1, 0), eight);
  EXPECT_EQ(single.network.value, 0);
  EXPECT_NEAR(all.network.value, 691, 1);
  EXPECT_NEAR(all.devices.value, 8 * single.devices.value, 1e-6);
}

TEST(Power, OfHalfANodeIsLessThanOfAll) {
  const System system = System::load("dgx-h100");
  const double half = power_of(report_of(4, 1, 0), system).wall().value;
  const double all = power_of(report_of(8, 1, 0), system).wall().value;
  EXPECT_GT(half, all / 2);
  EXPECT_LT(half, all * 0.75);
}

/// Two of eight slots filled draw a quarter of the devices' and boards' share; processors and adapters stay.
TEST(Power, OfEmptySlotsIsNone) {
  const System system = System::load("4090-pcie-8x");
  const Report two = report_of(2, 1, 0);
  const Power all = power_of(two, system), part = power_of(two, system, 2);
  EXPECT_GT(all.unused.value, 0);
  EXPECT_EQ(part.unused.value, 0);
  EXPECT_EQ(part.devices, all.devices);
  EXPECT_NEAR(part.boards.value, all.boards.value / 4, 1e-9);
  EXPECT_EQ(part.processors, all.processors);
  EXPECT_EQ(power_of(two, system, 8).wall(), all.wall());
  EXPECT_LT(idle_power(system, 1, 2).wall().value, idle_power(system, 1).wall().value);
}

TEST(Power, StaysBelowALimit) {
  const Report busy = report_of(8, 1, 0);
  const Power full = power_of(busy, System::load("v100-pcie-8x"));
  const auto limited = [&](const char* devices) {
    return power_of(busy, System::load("v100-pcie-8x", {{devices, "150W"}}));
  };
  // A limit is held to a little below it.
  const double all = limited("devices.*.power_limit").devices.value;
  EXPECT_LE(all, 8 * 150);
  EXPECT_GT(all, 0.9 * 8 * 150);
  EXPECT_LT(limited("devices.*.power_limit").wall().value, full.wall().value);
  EXPECT_NEAR(limited("devices.gpu3.power_limit").devices.value, full.devices.value * 7 / 8 + all / 8, 1e-6);
}

/// It says no watts of TPU v5p: they are not taken for nothing.
TEST(Power, OfAnUnknownAcceleratorMayBeAnything) {
  const System system = System::load("tpu-v5p-pod");
  ASSERT_EQ(system.device(system.accelerator(0)).watts, 0);
  const Power power = power_of(report_of(4, 1, 0), system);
  EXPECT_GT(power.devices.value, 4 * 200);
  EXPECT_LT(power.devices.low, 4 * 70);
  EXPECT_GT(power.devices.high, 4 * 1000);
}

TEST(Power, EnergyIsPowerTimesTime) {
  const Power power = power_of(report_of(8, 1, 0), System::load("dgx-h100"));
  EXPECT_DOUBLE_EQ(energy(power, 3600).value, power.wall().value * 3600);
}

TEST(Power, OfEverySystemIsFiniteAndOrdered) {
  for (const std::string& name : list_data("topologies/systems")) {
    const System system = System::load(name);
    const Estimate wall = power_of(report_of(system.accelerator_count(), 0.7, 0.2), system).wall();
    EXPECT_TRUE(std::isfinite(wall.high)) << name;
    EXPECT_LE(wall.low, wall.value) << name;
    EXPECT_LE(wall.value, wall.high) << name;
  }
}

}  // namespace
}  // namespace tandem::tests

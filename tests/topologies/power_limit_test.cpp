// SPDX-License-Identifier: Apache-2.0
// Power limits of devices: the curves, and how a system takes them.
#include "topologies/devices/power_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topologies/refusal.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using topologies::least_power_limit;
using topologies::power_limit;

TEST(PowerLimits, FollowTheCurveOfTheDevice) {
  const PowerLimit v100 = power_limit(Device::load("v100-pcie"), 0.7);
  EXPECT_DOUBLE_EQ(v100.low, 0.881);
  EXPECT_DOUBLE_EQ(v100.speed, 0.904);
  EXPECT_DOUBLE_EQ(v100.high, 0.946);
  EXPECT_TRUE(v100.own);
  EXPECT_NEAR(power_limit(Device::load("v100-pcie"), 0.75).speed, (0.904 + 0.945) / 2, 1e-12);
}

TEST(PowerLimits, OfOtherDevicesAreTheMeanWithinTheBoundsOfAll) {
  const PowerLimit h100 = power_limit(Device::load("h100-sxm"), 0.8);
  EXPECT_FALSE(h100.own);
  EXPECT_NEAR(h100.speed, (0.945 + 0.996 + 0.95) / 3, 1e-12);
  EXPECT_DOUBLE_EQ(h100.low, 0.91);
  EXPECT_DOUBLE_EQ(h100.high, 1);
  EXPECT_DOUBLE_EQ(least_power_limit(Device::load("h100-sxm")), 0.5);
}

TEST(PowerLimits, AreSetOnAllDevices) {
  const System system = System::load("v100-pcie-8x", {{"devices.*.power_limit", "175W"}});
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_DOUBLE_EQ(system.device(system.accelerator(i)).limit.share, 0.7) << i;
  EXPECT_EQ(system.device(system.host_of(system.accelerator(0))).limit, PowerLimit{});
  EXPECT_THAT(system.to_json_text(), HasSubstr("\"power_limit_watts\": 175"));
}

TEST(PowerLimits, AreSetOnSingleDevices) {
  for (const std::string who : {"gpu3", "gpu[3]", "gpu[3-3]"}) {
    const System plain = System::load("v100-pcie-8x");
    const System system = System::load("v100-pcie-8x", {{"devices." + who + ".power_limit", "0.175kW"}});
    ASSERT_EQ(system.accelerator_count(), 8);
    for (int64_t i = 0; i < 8; ++i) {
      const VertexId v = system.accelerator(i);
      EXPECT_DOUBLE_EQ(system.device(v).limit.share, i == 3 ? 0.7 : 1) << i;
      EXPECT_EQ(system.vertex_name(v), plain.vertex_name(v));
      EXPECT_EQ(system.info(v).numa, plain.info(v).numa) << i;
    }
  }
}

TEST(PowerLimits, AreNamedWithTheirDevices) {
  const System system = System::load("v100-pcie-8x", {{"devices.gpu3.power_limit", "175W"}});
  EXPECT_EQ(topologies::limited_name(system.device(system.accelerator(3))), "v100-pcie at 175 W");
  EXPECT_EQ(topologies::limited_name(system.device(system.accelerator(2))), "v100-pcie");
}

TEST(PowerLimits, AtRatedPowerChangeNothing) {
  const System system = System::load("v100-pcie-8x", {{"devices.*.power_limit", "250W"}});
  EXPECT_DOUBLE_EQ(system.device(system.accelerator(0)).limit.speed, 1);
}

TEST(PowerLimits, OfKindsOfNodesAreSetWhereTheDevicesAre) {
  const System both = System::load("v100-p100-pcie-16x", {{"devices.*.power_limit", "200W"}});
  for (int64_t i = 0; i < both.accelerator_count(); ++i)
    EXPECT_DOUBLE_EQ(both.device(both.accelerator(i)).limit.share, 0.8) << i;
}

TEST(PowerLimits, OutsideWhatWasMeasuredAreRefused) {
  const std::string low = refusal("v100-pcie-8x", {{"devices.*.power_limit", "90W"}});
  EXPECT_THAT(low, HasSubstr("v100-pcie takes a power limit from 100 W"));
  EXPECT_THAT(low, HasSubstr("to 250 W (its rated power), not 90 W"));
  EXPECT_THAT(low, HasSubstr("--set devices.*.power_limit=90W"));
  EXPECT_THAT(refusal("v100-pcie-8x", {{"devices.*.power_limit", "251W"}}), HasSubstr("not 251 W"));
  EXPECT_THAT(refusal("v100-pcie-8x", {{"devices.*.power_limit", "200"}}), HasSubstr("300W"));
  EXPECT_THAT(refusal("v100-pcie-8x", {{"devices.gpu9.power_limit", "200W"}}), HasSubstr("gpu[0-7]"));
  EXPECT_THAT(refusal("v100-pcie-8x", {{"devices.gpu[0-.power_limit", "200W"}}),
              HasSubstr("does not name vertices"));
  EXPECT_THAT(refusal("v100-pcie-8x", {{"devices.cpu0.power_limit", "100W"}}),
              HasSubstr("only those of GPUs were measured"));
  EXPECT_THAT(refusal("skylake-opa", {{"devices.*.power_limit", "100W"}}), HasSubstr("no device \"*\""));
  EXPECT_EQ(refusal("rtx-3090-4x", {{"devices.*.power_limit", "150W"}}), "");
}

}  // namespace
}  // namespace tandem::tests

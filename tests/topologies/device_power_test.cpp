// SPDX-License-Identifier: Apache-2.0
// What devices draw, the clock under a power limit, and how a system takes limits.
#include "topologies/devices/device_power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topologies/refusal.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using topologies::Activity;
using topologies::PowerModel;

Device limited(const std::string& name, double share) {
  Device device = Device::load(name);
  device.power_share = share;
  return device;
}

/// Of data whose figures are those of topologies/power/devices.json.
double figure(const char* group, const char* name) {
  const Json document = Json::load(std::string(TANDEM_ROOT) + "/topologies/power/devices.json");
  return document.at(group).at(name).at("value").as_real();
}
double of_clock(const char* name) {
  return Json::load(std::string(TANDEM_ROOT) + "/topologies/power/devices.json")
      .at("clock")
      .at(name)
      .as_real();
}

TEST(DevicePower, IsTheMeanOfWhatPartsOfTheTimeDraw) {
  const PowerModel model(Device::load("h100-sxm"));
  const double products = model.watts({.products = 1}), streams = model.watts({.streams = 1}),
               standing = model.watts({.standing = 1});
  EXPECT_DOUBLE_EQ(products, 700 * figure("levels", "products"));
  EXPECT_DOUBLE_EQ(standing, 700 * figure("levels", "standing"));
  EXPECT_GT(products, streams);
  EXPECT_GT(streams, model.watts({.communicating = 1}));
  EXPECT_GT(model.watts({.communicating = 1}), model.watts({.spinning = 1}));
  EXPECT_GT(model.watts({.spinning = 1}), standing);
  EXPECT_NEAR(model.watts({.products = 0.5, .streams = 0.3, .standing = 0.2}),
              0.5 * products + 0.3 * streams + 0.2 * standing, 1e-9);
  EXPECT_NEAR(model.watts({.products = 5, .standing = 15}), (products + 3 * standing) / 4, 1e-9);
}

TEST(DevicePower, OfAnArchitectureHasItsScale) {
  const PowerModel p100(Device::load("p100-pcie"));
  EXPECT_DOUBLE_EQ(p100.watts({.products = 1}),
                   250 * figure("scale", "pascal") * figure("levels", "products"));
  const auto width = [](const PowerModel& model) {
    const Activity standing{.standing = 1};
    return model.interval(standing).second / model.watts(standing);
  };
  EXPECT_GT(width(PowerModel(Device::load("b200"))), width(p100));
}

/// With products alone, below the clock at which the voltage is least, the draw is linear in the clock.
TEST(DevicePower, ClockUnderALimitIsThatOfTheFormula) {
  const double least = of_clock("least_voltage"), base = figure("base", "others"),
               drawn = figure("levels", "products");
  const double clock = PowerModel(limited("v100-pcie", 0.4)).clock(1, 0);
  ASSERT_LT(clock, 1 - (1 - least) / of_clock("slope"));
  EXPECT_NEAR(clock, (of_clock("held") * 0.4 - base) / ((drawn - base) * least * least), 1e-9);
  // Nothing that waits for memory alone gets slower, so no clock holds it but the lowest.
  EXPECT_EQ(PowerModel(limited("v100-pcie", 1)).clock(1, 0), 1);
  EXPECT_EQ(PowerModel(limited("p100-pcie", 0.9)).clock(1, 1), 1);  // it never draws as much
}

TEST(DevicePower, LessPowerIsNeverFasterNorDrawsMore) {
  for (const char* name : {"v100-pcie", "h100-sxm", "rtx-3090", "mi300x"}) {
    for (const double streams : {0.0, 0.3, 1.0}) {
      double clock = 1, watts = 1e9;
      for (double share = 1; share > 0.4; share -= 0.05) {
        const PowerModel model(limited(name, share));
        const double next = model.clock(1, streams), draws = model.watts({.products = 1, .streams = streams});
        EXPECT_LE(next, clock) << name << " " << share;
        EXPECT_GT(next, 0.1) << name << " " << share;
        EXPECT_LE(draws, watts) << name << " " << share;
        EXPECT_LE(draws, share * Device::load(name).watts * (1 + 1e-12)) << name << " " << share;
        clock = next;
        watts = draws;
      }
    }
  }
}

/// LLM Garage 2026: prompts through RTX 3090 at 150 and 200 of 350 W, 0.258 and 0.6 of the speed.
TEST(DevicePower, OfGddr6xFallsFasterUnderALimit) {
  EXPECT_NEAR(PowerModel(limited("rtx-3090", 150.0 / 350)).clock(1, 0), 0.258, 0.05);
  EXPECT_NEAR(PowerModel(limited("rtx-3090", 200.0 / 350)).clock(1, 0), 0.6, 0.06);
  EXPECT_GT(PowerModel(limited("v100-pcie", 150.0 / 350)).clock(1, 0), 0.45);
}

TEST(DevicePower, ProductsThatWantMoreThanTheRatedPowerFeelAnyLimit) {
  // calibration/data/limited_products.json: 0.72 of the best product at 500 of 700 W
  EXPECT_NEAR(PowerModel(limited("h100-sxm", 500.0 / 700)).clock(1, 0), 0.72, 0.03);
  const PowerModel h100(limited("h100-sxm", 0.95));
  EXPECT_LT(h100.clock(1, 0), 0.99);
  EXPECT_GT(h100.clock(1, 0, 0.3), h100.clock(1, 0)) << "products that reach little draw little";
  EXPECT_EQ(h100.clock(0.2, 1), 1) << "it draws less than the limit";
  const PowerModel low(limited("h100-sxm", 0.6));
  EXPECT_LT(low.clock(1, 0.2, 1), low.clock(1, 0.2, 0.7));
  EXPECT_LT(low.clock(1, 0.2, 0.7), low.clock(1, 0.2, 0.2));
  EXPECT_EQ(PowerModel(Device::load("h100-sxm")).clock(1, 0), 1) << "no limit";
  EXPECT_EQ(PowerModel(limited("v100-pcie", 0.6)).clock(1, 1, 0.2),
            PowerModel(limited("v100-pcie", 0.6)).clock(1, 1))
      << "whose demand is not known";
}

TEST(PowerLimits, AreSetOnAllDevices) {
  const System system = System::load("v100-pcie-8x", {{"devices.*.power_limit", "175W"}});
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_DOUBLE_EQ(system.device(system.accelerator(i)).power_share, 0.7) << i;
  EXPECT_EQ(system.device(system.host_of(system.accelerator(0))).power_share, 1);
  EXPECT_THAT(system.to_json_text(), HasSubstr("\"power_limit_watts\": 175"));
}

TEST(PowerLimits, AreSetOnSingleDevices) {
  for (const std::string who : {"gpu3", "gpu[3]", "gpu[3-3]"}) {
    const System plain = System::load("v100-pcie-8x");
    const System system = System::load("v100-pcie-8x", {{"devices." + who + ".power_limit", "0.175kW"}});
    ASSERT_EQ(system.accelerator_count(), 8);
    for (int64_t i = 0; i < 8; ++i) {
      const VertexId v = system.accelerator(i);
      EXPECT_DOUBLE_EQ(system.device(v).power_share, i == 3 ? 0.7 : 1) << i;
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
  EXPECT_DOUBLE_EQ(system.device(system.accelerator(0)).power_share, 1);
}

TEST(PowerLimits, OfKindsOfNodesAreSetWhereTheDevicesAre) {
  const System both = System::load("v100-p100-pcie-16x", {{"devices.*.power_limit", "200W"}});
  for (int64_t i = 0; i < both.accelerator_count(); ++i)
    EXPECT_DOUBLE_EQ(both.device(both.accelerator(i)).power_share, 0.8) << i;
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
  EXPECT_THAT(refusal("skylake-opa", {{"devices.*.power_limit", "100W"}}), HasSubstr("no accelerator"));
  EXPECT_EQ(refusal("rtx-3090-4x", {{"devices.*.power_limit", "150W"}}), "");
}

}  // namespace
}  // namespace tandem::tests

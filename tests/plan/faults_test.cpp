// SPDX-License-Identifier: Apache-2.0
// Failure rates as they ship, and what they make of a job.
#include "plan/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/data.h"
#include "plan/grid.h"

namespace tandem::tests {
namespace {

using namespace plan;

TEST(FaultRates, OfEverySystemAreOrdered) {
  for (const std::string& name : list_data("topologies/systems")) {
    const FaultRates rates = fault_rates(System::load(name));
    for (const Estimate& e : {rates.node_mtbf, rates.restart, rates.repair}) {
      EXPECT_GT(e.low, 0) << name;
      EXPECT_LE(e.low, e.value) << name;
      EXPECT_LE(e.value, e.high) << name;
    }
  }
}

TEST(FaultRates, DevicesThatTheyNameExist) {
  for (const std::string& name : list_data("plan/faults")) {
    const Json document = Json::load(find_data("plan/faults", "kind", name));
    for (const Json& device : document.at("devices").items())
      EXPECT_EQ(Device::load(device.as_text()).name, device.as_text());
  }
}

/// 16,384 H100 were interrupted every 3.1 hours (arXiv 2407.21783).
TEST(FaultRates, OfLlama3AreReproduced) {
  const FaultRates rates = fault_rates(System::load("dgx-h100"));
  EXPECT_NEAR(rates.node_mtbf.value / 2048 / 3600, 3.1, 0.05);
  EXPECT_TRUE(rates.notes.empty());
}

TEST(FaultRates, AreThoseOfTheDevicesThatTrain) {
  const System system = System::load("dgx-h100");
  EXPECT_EQ(fault_rates(system, 8).node_mtbf, fault_rates(system).node_mtbf);
  EXPECT_NEAR(fault_rates(system, 2).node_mtbf.value, 4 * fault_rates(system).node_mtbf.value, 1);
}

TEST(FaultRates, OfOtherDevicesSaySo) {
  EXPECT_THAT(fault_rates(System::load("4090-pcie-8x")).notes,
              testing::ElementsAre(testing::HasSubstr("rtx-4090")));
}

TEST(FaultRates, SpotInterruptionsComeOnTop) {
  const FaultRates rates = fault_rates(System::load("dgx-h100"));
  const auto plain = failures(rates, Luck::expected, 0, 60, false);
  EXPECT_DOUBLE_EQ(plain.node_mtbf, rates.node_mtbf.value);
  EXPECT_DOUBLE_EQ(*plain.restart, rates.restart.value + 60);
  EXPECT_DOUBLE_EQ(plain.repair, rates.repair.value);
  const auto spot = failures(rates, Luck::expected, 0.1, 60, true);
  EXPECT_NEAR(spot.node_mtbf / 3600, 10, 0.1);
  EXPECT_EQ(spot.repair, 0);
  const auto worst = failures(rates, Luck::worst, 0, 0, false),
             best = failures(rates, Luck::best, 0, 0, false);
  EXPECT_LT(worst.node_mtbf, best.node_mtbf);
  EXPECT_GT(*worst.restart, *best.restart);
  EXPECT_GT(worst.repair, best.repair);
}

TEST(FaultRates, OfSpotNodesAreMostlyInterruptions) {
  const FaultRates rates = fault_rates(System::load("dgx-h100"));
  const SpotRates spot = spot_rates();
  const auto expected = failures(rates, Luck::expected, spot, 60);
  EXPECT_NEAR(expected.node_mtbf / 3600, 1 / spot.interruptions.value, 0.01);
  EXPECT_NEAR(expected.repair, spot.away.value, 10);
  EXPECT_LT(expected.repair, spot.away.value);
  const auto worst = failures(rates, Luck::worst, spot, 60), best = failures(rates, Luck::best, spot, 60);
  EXPECT_LT(worst.node_mtbf, best.node_mtbf);
  EXPECT_GT(worst.repair, best.repair);
}

TEST(Grids, AreFoundByName) {
  EXPECT_NEAR(find_grid("france").grams_per_kwh, 56, 1);
  EXPECT_EQ(find_building("google").pue, 1.09);
  EXPECT_THROW(find_grid("Frnace"), InputError);
  EXPECT_GE(list_grids().size(), 12u);
  EXPECT_GE(list_buildings().size(), 8u);
}

TEST(Grids, CarbonIsEnergyTimesIntensity) {
  const Estimate kg = carbon(find_grid("France"), 3.6e6 * 1000, 1.2);  // a MWh
  EXPECT_NEAR(kg.value, 1.2 * 56.039, 1e-6);
}

}  // namespace
}  // namespace tandem::tests

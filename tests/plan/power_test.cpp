// SPDX-License-Identifier: Apache-2.0
// What machines draw: common sense, and published runs (calibration/data/power).
#include "plan/power.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "answers/answer.h"
#include "answers/question.h"
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
  return out;
}

TEST(Power, OfABusyH100ServerIsAsMeasured) {
  const System system = System::load("dgx-h100");
  const double busy = power_of(report_of(8, 0.98, 0.01), system).wall().value;
  EXPECT_NEAR(busy, 7040, 150);  // mean of six runs, which the shares were fitted to
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

TEST(Power, StaysBelowALimit) {
  const System system = System::load("v100-pcie-8x");
  const Power full = power_of(report_of(8, 1, 0), system), less = power_of(report_of(8, 1, 0), system, 0.6);
  EXPECT_NEAR(less.devices.value, 8 * 250 * 0.6, 1e-6);
  EXPECT_LT(less.wall().value, full.wall().value);
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

TEST(PowerLimits, SlowDevicesDown) {
  const Device v100 = Device::load("v100-pcie"), h100 = Device::load("h100-sxm");
  EXPECT_EQ(speed_at(v100, 1), Estimate(1));
  EXPECT_NEAR(speed_at(v100, 0.7).value, 0.904, 1e-9);
  for (const Device& device : {v100, h100, Device::load("rtx-3090")}) {
    Estimate before = 0;
    for (double limit = least_limit(device); limit <= 1; limit += 0.02) {
      const Estimate speed = speed_at(device, limit);
      EXPECT_LE(speed.low, speed.value) << device.name << " " << limit;
      EXPECT_LE(speed.value, speed.high) << device.name << " " << limit;
      EXPECT_GE(speed.value, before.value) << device.name << " " << limit;
      before = speed;
    }
    EXPECT_THROW(speed_at(device, least_limit(device) - 0.01), InputError);
  }
  EXPECT_LT(speed_at(h100, 0.7).low, speed_at(v100, 0.7).low);
}

/// Every row is predicted; those of machines that nothing was fitted to are within 15 % on average.
TEST(Power, OfPublishedRunsIsPredicted) {
  double errors = 0;
  int rows = 0, covered = 0;
  for (const std::string& name : list_data("calibration/data/power")) {
    const Json document = Json::load(find_data("calibration/data/power", "file", name));
    for (const Json& row : document.at("rows").items()) {
      Json asked = row.at("question");
      asked.set("schema", Json::make_text("tandem-question-1", row.place()));
      const auto question = answers::Question::from_json(asked);
      const Report report = answers::predict(question, question.devices.at(0), answers::Depth::rate);
      const Power power = power_of(report, question.system);
      const bool node = row.at("per").as_text() == "node";
      const double nodes = node ? std::ceil(static_cast<double>(question.devices[0]) / 8) : 1;
      const Estimate watts = (node ? power.wall() : power.devices) * (1 / nodes);
      const double published = row.at("watts").as_real(), error = watts.value / published - 1;
      fmt::print("{:24} {:26} {:5.0f} W published, {:5.0f} [{:.0f}, {:.0f}] predicted, {:+.1f} %{}\n",
                 row.at("machine").as_text(), question.graph.name(), published, watts.value, watts.low,
                 watts.high, 100 * error, row.boolean("held_out", false) ? ", held out" : "");
      EXPECT_LT(std::abs(error), 0.3);
      if (!row.boolean("held_out", false)) continue;
      errors += std::abs(error);
      covered += watts.low <= published && published <= watts.high;
      ++rows;
    }
  }
  ASSERT_GE(rows, 8);
  fmt::print("held out: mean error {:.1f} %, {} of {} within the bounds\n", 100 * errors / rows, covered,
             rows);
  EXPECT_LT(errors / rows, 0.15);
}

}  // namespace
}  // namespace tandem::tests

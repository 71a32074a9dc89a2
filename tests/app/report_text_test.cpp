// SPDX-License-Identifier: Apache-2.0
// Reports in words.
#include "app/console/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schemes/report/report.h"

namespace tandem::tests {
namespace {

TEST(ReportText, NamesOneSlowWorkerOrAllThatAreSlow) {
  Report r;
  r.bottleneck.resource = "compute";
  r.time.share.compute = 0.3;
  r.time.share.waiting = 0.6;
  r.time.waiting_for = {{"worker 3 on gpu3", 0.59}, {"worker 1 on gpu1", 0.01}};
  EXPECT_EQ(app::bound_by(r), "compute of worker 3 on gpu3, awaited for 59 % of the step");
  r.time.waiting_for = {{"worker 3 on gpu3", 0.35}, {"worker 1 on gpu1", 0.25}};
  EXPECT_EQ(app::bound_by(r),
            "compute of slower workers, awaited for 60 % of the step (most: worker 3 on gpu3 35 %)");
}

TEST(ReportText, ALinkThatOthersWaitForHasNoShareOfItsOwn) {
  Report r;
  r.bottleneck.resource = "links.nvlink.bandwidth";
  r.bottleneck.share = 0.3;
  r.bottleneck.gain_if_unlimited = 0.4;
  EXPECT_EQ(app::bound_by(r), "nvlink bandwidth, 30 % of the step (unlimited: +40 %)");
  r.bottleneck.share = 0.02;
  r.bottleneck.gain_if_unlimited = 1.36;
  EXPECT_EQ(app::bound_by(r), "nvlink bandwidth (unlimited: +136 %)");
}

TEST(ReportText, SaysWhatDevicesDrew) {
  Report r;
  EXPECT_EQ(app::drawn_line(r), "");
  r.time.power = DevicePower{.watts = 612.3, .low = 500, .high = 700, .joules_per_step = 38.21};
  EXPECT_EQ(app::drawn_line(r), "") << "predicted";
  r.time.power->readings = DevicePower::Readings{.source = "NVML 580.159.04",
                                                 .devices = 2,
                                                 .count = 1440,
                                                 .counter = true,
                                                 .least = 582.4,
                                                 .most = 640,
                                                 .clock_mhz = 1890.4,
                                                 .memory_mhz = 3201,
                                                 .celsius = 61,
                                                 .held_by_power = 0.25};
  EXPECT_EQ(
      app::drawn_line(r),
      "GPUs drew 612 W each (582 .. 640 in 1,440 readings), 38.2 J a step, clocks 1,890 MHz, at most 61 °C, "
      "held down by the power limit in 25 % of the readings");
  r.time.power->readings =
      DevicePower::Readings{.source = "RAPL", .devices = 1, .count = 20, .least = 40, .most = 95};
  EXPECT_EQ(app::drawn_line(r), "the processor package drew 612 W (40 .. 95 in 20 readings), 38.2 J a step");
}

TEST(ReportText, OnlyStagesHaveMicroBatches) {
  Report r;
  r.setup.batch_per_device = 32;
  r.memory_by_role = {{"master", 1, {}}, {"replica", 3, {}}};
  EXPECT_EQ(app::report_batch(r), "32 samples per device");
  r.memory_by_role = {{"stage 0", 1, {}}, {"stage 1", 1, {}}};
  EXPECT_EQ(app::report_batch(r), "32 samples per micro-batch");
}

TEST(ReportText, EfficiencyAbovePerfectIsTheDividedUpdate) {
  Report one, eight;
  one.setup.devices = 1;
  one.iteration.median = 0.1;
  one.time.kernels = {{"gemm", "", 0.8}, {"optimizer", "", 0.2}};
  eight = one;
  eight.setup.devices = 8;
  eight.iteration.median = 0.09;
  eight.scaling.efficiency = 1.1;
  EXPECT_EQ(app::beyond_perfect_text({one, eight}), "") << "the update takes as long";
  eight.time.kernels = {{"gemm", "", 0.9}, {"optimizer", "", 0.03}};
  EXPECT_EQ(
      app::beyond_perfect_text({one, eight}),
      "Efficiency above 100 %: the optimiser's update takes 20 % of the step on 1 device, and 8 devices "
      "divide it.");
  one.time.share.launch = 0.1;
  eight.time.share.launch = 0.02;
  EXPECT_EQ(
      app::beyond_perfect_text({one, eight}),
      "Efficiency above 100 %: the optimiser's update takes 20 % of the step on 1 device and its launches "
      "some 8 %, and 8 devices divide it.");
  Report served = eight;
  served.time.kernels = {{"gemm", "", 0.95}};
  served.setup.inputs = {{"scheme.server", "cpu"}};
  EXPECT_THAT(app::beyond_perfect_text({one, served}),
              ::testing::EndsWith(", and servers do it for 8 devices."));
  EXPECT_EQ(app::beyond_perfect_text({eight}), "") << "of one device nothing is known";
  eight.scaling.efficiency = 0.99;
  EXPECT_EQ(app::beyond_perfect_text({one, eight}), "");
}

}  // namespace
}  // namespace tandem::tests

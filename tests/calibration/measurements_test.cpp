// SPDX-License-Identifier: Apache-2.0
// Documents of measurements, and the faster of two.
#include "calibration/fit/measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/calibration/made_up_machine.h"

namespace tandem::tests {
namespace {

TEST(Measured, JoinsAndKeepsPrecisions) {
  const Measurements calm = made_in_two();
  const std::string text = calm.to_json();
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
  EXPECT_EQ(made().to_json().find("precision"), std::string::npos) << "fp32 is what documents without say";
  Measurements busy = calm;
  for (MeasuredGraph& g : busy.graphs) g.step_median *= g.precision == Precision::bf16 ? 0.5 : 2;
  for (MeasuredKernel& k : busy.kernels) k.median *= 3;
  const Measurements joined = fastest_of(calm, busy);
  EXPECT_EQ(joined.kernels.front().median, calm.kernels.front().median);
  EXPECT_EQ(joined.kernels.back().median, busy.kernels.back().median) << "its graph was faster";
  std::reverse(busy.graphs.begin(), busy.graphs.end());
  EXPECT_THROW(fastest_of(calm, busy), InputError);
}

/// A kernel's time comes from the turn in which its graph as a whole was fastest, also where it itself was
/// not.
TEST(Measured, OfTwoMeasurementsTheFasterTurnOfEachGraphCounts) {
  const Measurements calm = made();
  Measurements busy = calm;
  for (MeasuredGraph& g : busy.graphs) g.step_median *= 1.3;
  for (MeasuredKernel& k : busy.kernels) k.median *= 3;
  busy.kernels[4].median = calm.kernels[4].median / 2;
  for (MeasuredTransfer& t : busy.copy) t.seconds /= 2;
  for (const Measurements& joined : {fastest_of(calm, busy), fastest_of(busy, calm)}) {
    for (std::size_t i = 0; i < calm.kernels.size(); ++i)
      EXPECT_EQ(joined.kernels[i].median, calm.kernels[i].median);
    EXPECT_EQ(joined.graphs[0].step_median, calm.graphs[0].step_median);
    EXPECT_EQ(joined.copy[0].seconds, busy.copy[0].seconds);
    EXPECT_EQ(joined.tcp.size(), calm.tcp.size());
  }
  busy.graphs[calm.kernels[0].graph].step_median = calm.graphs[calm.kernels[0].graph].step_median / 2;
  EXPECT_EQ(fastest_of(calm, busy).kernels[0].median, busy.kernels[0].median);
  busy.kernels[0].median = 0;  // every launch was disturbed
  EXPECT_EQ(fastest_of(calm, busy).kernels[0].median, calm.kernels[0].median);
  busy.kernels.pop_back();
  EXPECT_THROW(fastest_of(calm, busy), InputError);
}

TEST(Measured, MeasurementsSurviveTheirFile) {
  Measurements m = made();
  EXPECT_EQ(m.to_json().find("fused"), std::string::npos) << "only where something is";
  m.kernels[0].kernel.fused = true;
  const std::string text = m.to_json();
  EXPECT_TRUE(Measurements::from_json(Json::parse(text, "m.json")).kernels[0].kernel.fused);
  EXPECT_EQ(Measurements::from_json(Json::parse(text, "m.json")).to_json(), text);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Whole published runs and published watts beside predictions: their sections, and how far off these are.
#include "calibration/validate/validate_runs.h"
#include "calibration/validate/validate_power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tandem::tests {
namespace {

using calibration::LimitRow;
using calibration::PowerRow;
using calibration::RunRow;
using testing::HasSubstr;
using testing::Not;

RunRow run(const std::string& name, double published, double predicted) {
  RunRow out;
  out.name = name;
  out.family = "a family";
  out.published = published;
  out.predicted = predicted;
  out.low = 0.9 * predicted;
  out.high = 1.1 * predicted;
  return out;
}

TEST(Runs, AreJudgedWhereTheHoursAreOfTrainingAlone) {
  RunRow whole = run("with failures", 200, 100);
  whole.includes = "failures";
  RunRow unknown = run("unknown", 1, 0);
  unknown.failure = "not published, or not of Tandem's: devices";
  const std::string text =
      calibration::runs_markdown({run("a", 100, 105), run("b", 100, 80), whole, unknown});
  EXPECT_THAT(text, HasSubstr("| a family | 2 | 12.5 % | -7.5 % | 20.0 % | 50 % |"));
  EXPECT_THAT(text, HasSubstr("| **all** | 2 |"));
  EXPECT_THAT(text, HasSubstr("| -50.0 % | not judged, holds failures |"));
  EXPECT_THAT(text, HasSubstr("| unknown | not published, or not of Tandem's: devices |"));
}

TEST(Runs, AreQuotedInTheirTable) {
  RunRow row = run("a, \"b\"", 100, 105);
  const std::string text = calibration::runs_csv({row});
  EXPECT_THAT(text, HasSubstr("\"a, \"\"b\"\"\""));
  EXPECT_THAT(text, HasSubstr(",5.00,"));
}

/// Every row has bounds around its prediction; rows that nothing was fitted to are off by at most 15 % on
/// average.
TEST(Watts, OfPublishedRunsArePredicted) {
  const auto rows = calibration::validate_power(2);
  double errors = 0;
  int held_out = 0;
  for (const PowerRow& r : rows.drawn) {
    EXPECT_LE(r.low, r.predicted) << r.machine;
    EXPECT_LE(r.predicted, r.high) << r.machine;
    // A run of two minutes on 64 nodes, much of it its start and evaluations.
    if (r.devices != 512 || r.model.find("lora") == std::string::npos)
      EXPECT_LT(std::abs(r.error()), 0.3) << r.machine << ", " << r.model;
    EXPECT_LE(r.at_rate, r.predicted) << r.machine << ", " << r.model;
    if (!r.held_out) continue;
    errors += std::abs(r.error());
    ++held_out;
  }
  ASSERT_GE(held_out, 8);
  EXPECT_LT(errors / held_out, 0.15);
  EXPECT_THAT(calibration::power_markdown(rows), HasSubstr("| are held out | "));
}

/// A P100, whose clock nothing was fitted to, is predicted within 5 % at every limit, and so is what it draws
/// within 15 %.
TEST(Watts, UnderLimitsArePredictedOfADeviceOutsideTheFit) {
  int held_out = 0;
  for (const LimitRow& r : calibration::validate_power(2).limits) {
    EXPECT_LE(r.low, r.predicted);
    EXPECT_LE(r.predicted, r.high);
    if (!r.held_out) continue;
    ++held_out;
    EXPECT_NEAR(r.predicted / r.published, 1, 0.05) << r.model << " at " << r.limit << " W";
    EXPECT_NEAR(r.predicted_watts / r.published_watts, 1, 0.15) << r.model << " at " << r.limit << " W";
  }
  EXPECT_GE(held_out, 40);
}

}  // namespace
}  // namespace tandem::tests

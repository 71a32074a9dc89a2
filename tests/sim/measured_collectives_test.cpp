// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/measured_collectives.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::tests {
namespace {

CollectivePoint point(int64_t bytes, double seconds) { return {bytes, seconds}; }

TEST(CollectiveCorrection, IsExactAtItsPointsAndBetweenThemGrowsAsPredicted) {
  const auto predict = [](int64_t bytes) { return 1e-5 + static_cast<double>(bytes) * 1e-10; };
  const std::vector<CollectivePoint> points = {point(1024, 2 * predict(1024)), point(65536, predict(65536)),
                                               point(1 << 20, 1.5 * predict(1 << 20))};
  const CollectiveCorrection correction(points, predict);
  for (const CollectivePoint& p : points)
    EXPECT_NEAR(correction.factor(p.bytes) * predict(p.bytes), p.seconds, 1e-12);
  EXPECT_NEAR(correction.factor(16), 2, 1e-9);  // held beyond the outermost points
  EXPECT_NEAR(correction.factor(1 << 30), 1.5, 1e-9);
  EXPECT_EQ(CollectiveCorrection({}, predict).factor(1024), 1);
}

/// Whatever start-up and bandwidth are off by, two sizes tell both.
TEST(CollectiveCorrection, FindsStartUpAndBandwidthFromTwoSizes) {
  const auto predict = [](int64_t bytes) { return 1e-5 + static_cast<double>(bytes) * 1e-10; };
  const auto real = [](int64_t bytes) { return 4e-5 + static_cast<double>(bytes) * 1.3e-10; };
  const CollectiveCorrection correction({point(1024, real(1024)), point(1 << 30, real(1 << 30))}, predict);
  for (const int64_t bytes : {8192, 1 << 18, 1 << 22, 1 << 27})
    EXPECT_NEAR(correction.factor(bytes) * predict(bytes) / real(bytes), 1, 1e-9);
}

TEST(CollectiveCorrection, IsExactWhereThePredictionDoesNotGrow) {
  const auto predict = [](int64_t) { return 1e-5; };
  const CollectiveCorrection correction({point(1024, 2e-5), point(4096, 2.1e-5), point(16384, 2.4e-5)},
                                        predict);
  EXPECT_NEAR(correction.factor(4096), 2.1, 1e-9);
  EXPECT_NEAR(correction.factor(8192), 2.25, 1e-9);
}

/// A jump of the prediction, where a library changes its protocol, stays where it is; and no time between two
/// measured ones is outside them.
TEST(CollectiveCorrection, KeepsJumpsAndStaysBetweenItsPoints) {
  const auto predict = [](int64_t bytes) { return bytes < 4096 ? 1e-5 : 2e-5; };
  const CollectiveCorrection correction({point(1024, 3e-5), point(8192, 5e-5)}, predict);
  EXPECT_NEAR(correction.factor(2048) * predict(2048), 3e-5, 1e-12);
  EXPECT_NEAR(correction.factor(4096) * predict(4096), 5e-5, 1e-12);
  const auto humped = [](int64_t bytes) {
    return bytes == 4096 ? 1e-3 : 1e-5 + 1e-9 * static_cast<double>(bytes);
  };
  const CollectiveCorrection bounded({point(1024, 3e-5), point(8192, 5e-5)}, humped);
  EXPECT_NEAR(bounded.factor(4096) * humped(4096), 5e-5, 1e-12);
}

TEST(CollectiveCorrection, LeavesStallsOut) {
  const auto predict = [](int64_t) { return 1e-4; };
  const CollectiveCorrection correction({point(1024, 1e-4), point(4096, 1e-3), point(16384, 1e-4)}, predict);
  EXPECT_NEAR(correction.factor(4096), 1, 1e-9);
}

TEST(CollectiveCorrection, KnowsWhatItsPointsSpan) {
  const CollectiveCorrection correction({point(1024, 1), point(4096, 1)}, [](int64_t) { return 1.0; });
  EXPECT_TRUE(correction.spans(1024));
  EXPECT_TRUE(correction.spans(4096));
  EXPECT_FALSE(correction.spans(1023));
  EXPECT_FALSE(correction.spans(4097));
  EXPECT_FALSE(CollectiveCorrection({}, [](int64_t) { return 1.0; }).spans(1024));
}

TEST(MeasuredCollectives, TheSameOperationFirstThenItsSiblingsAndNoOtherNumberOfDevices) {
  MeasuredCollectives m;
  for (const auto& [kind, devices] :
       {std::pair("all-gather", 8), {"all-reduce", 8}, {"broadcast", 8}, {"all-reduce", 4}}) {
    m.all.push_back({.kind = kind, .devices = devices, .harness = {}, .points = {point(1024, 1e-5)}});
  }
  EXPECT_EQ(m.find("all-reduce", 8), &m.all[1]);
  EXPECT_EQ(m.find("reduce-scatter", 8), &m.all[0]);
  EXPECT_EQ(m.find("all-gather", 4), &m.all[3]);
  EXPECT_EQ(m.find("broadcast", 8), &m.all[2]);
  EXPECT_EQ(m.find("broadcast", 4), nullptr);
  EXPECT_EQ(m.find("all-to-all", 8), nullptr);
  EXPECT_EQ(m.find("all-reduce", 2), nullptr);
  EXPECT_EQ(bearing("all-gather", "all-to-all"), Bearing::none);
  EXPECT_LT(spread(Bearing::own, 1 << 24), spread(Bearing::sibling, 1 << 24));
  EXPECT_EQ(spread(Bearing::none, 1024), 0);
}

}  // namespace
}  // namespace tandem::tests

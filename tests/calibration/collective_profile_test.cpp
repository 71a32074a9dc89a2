// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/collective_profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tandem::tests {
namespace {

NcclRow row(int64_t bytes, double seconds) {
  NcclRow out;
  out.bytes = bytes;
  out.seconds = seconds;
  return out;
}

CollectiveProfile sample() {
  NcclLog log;
  log.kind = "all-reduce";
  log.devices = 8;
  log.version = "2.20.5";
  log.harness = {1, 8, 20};
  log.rows = {row(4096, 3e-5), row(1024, 2e-5)};
  return profile_of(log, "a.txt", "");
}

TEST(CollectiveProfile, SurvivesItsDocument) {
  const CollectiveProfile before = sample();
  const CollectiveProfile after = read_collective_profile(Json::parse(profile_json(before), "p.json"));
  EXPECT_EQ(after.kind, "all-reduce");
  EXPECT_EQ(after.library, "nccl-2.20.5");
  EXPECT_EQ(after.devices, 8);
  EXPECT_EQ(after.harness, before.harness);
  ASSERT_EQ(after.points.size(), 2u);
  EXPECT_EQ(after.points[0].bytes, 1024);  // by size
  EXPECT_DOUBLE_EQ(after.points[1].seconds, 3e-5);
}

TEST(CollectiveProfile, RefusesWhatItCannotUse) {
  const auto refused = [](const std::string& text) {
    EXPECT_THROW(read_collective_profile(Json::parse(text, "p.json")), InputError) << text;
  };
  refused(R"({"schema": "tandem-report-1", "kind": "all-reduce", "points": []})");
  refused(R"({"schema": "tandem-collective-profile-1", "kind": "all-reduce", "points": []})");
  refused(
      R"({"schema": "tandem-collective-profile-1", "kind": "all-reduce", "points": [{"bytes": 0, "seconds": 1}]})");
  refused(
      R"({"schema": "tandem-collective-profile-1", "kind": "all-reduce", "points": [{"bytes": 8, "seconds": 0}]})");
  NcclLog nameless;
  EXPECT_THROW(profile_of(nameless, "a.txt", ""), InputError);
  EXPECT_EQ(profile_of(nameless, "a.txt", "broadcast").kind, "broadcast");
  nameless.kind = "sendrecv";
  EXPECT_THROW(profile_of(nameless, "a.txt", "broadcast"), InputError);
}

TEST(CollectiveProfile, JoinsLogsOfOneQuestionOnly) {
  CollectiveProfile all = sample(), more = sample();
  more.points = {row(1024, 8e-5), row(2048, 5e-5)};
  join(all, more);
  ASSERT_EQ(all.points.size(), 3u);
  EXPECT_NEAR(all.points[0].seconds, 4e-5, 1e-12);  // the geometric mean of 2e-5 and 8e-5
  EXPECT_EQ(all.points[1].bytes, 2048);
  more.devices = 4;
  EXPECT_THROW(join(all, more), InputError);
}

TEST(CollectiveCorrection, IsExactAtItsPointsAndBetweenThemGrowsAsPredicted) {
  const auto predict = [](int64_t bytes) { return 1e-5 + static_cast<double>(bytes) * 1e-10; };
  const std::vector<NcclRow> points = {row(1024, 2 * predict(1024)), row(65536, predict(65536)),
                                       row(1 << 20, 1.5 * predict(1 << 20))};
  const CollectiveCorrection correction(points, predict);
  for (const NcclRow& p : points)
    EXPECT_NEAR(correction.factor(p.bytes) * predict(p.bytes), p.seconds, 1e-12);
  EXPECT_NEAR(correction.factor(16), 2, 1e-9);  // held beyond the outermost points
  EXPECT_NEAR(correction.factor(1 << 30), 1.5, 1e-9);
  EXPECT_EQ(CollectiveCorrection({}, predict).factor(1024), 1);
}

/// Whatever start-up and bandwidth are off by, two sizes tell both.
TEST(CollectiveCorrection, FindsStartUpAndBandwidthFromTwoSizes) {
  const auto predict = [](int64_t bytes) { return 1e-5 + static_cast<double>(bytes) * 1e-10; };
  const auto real = [](int64_t bytes) { return 4e-5 + static_cast<double>(bytes) * 1.3e-10; };
  const CollectiveCorrection correction({row(1024, real(1024)), row(1 << 30, real(1 << 30))}, predict);
  for (const int64_t bytes : {8192, 1 << 18, 1 << 22, 1 << 27})
    EXPECT_NEAR(correction.factor(bytes) * predict(bytes) / real(bytes), 1, 1e-9);
}

TEST(CollectiveCorrection, IsExactWhereThePredictionDoesNotGrow) {
  const auto predict = [](int64_t) { return 1e-5; };
  const CollectiveCorrection correction({row(1024, 2e-5), row(4096, 2.1e-5), row(16384, 2.4e-5)}, predict);
  EXPECT_NEAR(correction.factor(4096), 2.1, 1e-9);
  EXPECT_NEAR(correction.factor(8192), 2.25, 1e-9);
}

/// A jump of the prediction, where a library changes its protocol, stays where it is; and no time between two
/// measured ones is outside them.
TEST(CollectiveCorrection, KeepsJumpsAndStaysBetweenItsPoints) {
  const auto predict = [](int64_t bytes) { return bytes < 4096 ? 1e-5 : 2e-5; };
  const CollectiveCorrection correction({row(1024, 3e-5), row(8192, 5e-5)}, predict);
  EXPECT_NEAR(correction.factor(2048) * predict(2048), 3e-5, 1e-12);
  EXPECT_NEAR(correction.factor(4096) * predict(4096), 5e-5, 1e-12);
  const auto humped = [](int64_t bytes) {
    return bytes == 4096 ? 1e-3 : 1e-5 + 1e-9 * static_cast<double>(bytes);
  };
  const CollectiveCorrection bounded({row(1024, 3e-5), row(8192, 5e-5)}, humped);
  EXPECT_NEAR(bounded.factor(4096) * humped(4096), 5e-5, 1e-12);
}

TEST(CollectiveCorrection, LeavesStallsOut) {
  const auto predict = [](int64_t) { return 1e-4; };
  const CollectiveCorrection correction({row(1024, 1e-4), row(4096, 1e-3), row(16384, 1e-4)}, predict);
  EXPECT_NEAR(correction.factor(4096), 1, 1e-9);
}

TEST(EverySecondSize, TakesPowersOfTwoFromTheFirstOn) {
  const auto taken =
      every_second_size({row(3000, 1), row(2048, 1), row(1024, 1), row(4096, 1), row(16384, 1)});
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].bytes, 1024);
  EXPECT_EQ(taken[1].bytes, 4096);
  EXPECT_EQ(taken[2].bytes, 16384);
}

}  // namespace
}  // namespace tandem::tests

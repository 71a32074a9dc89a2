// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit/collective_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "calibration/validate/collective_data.h"

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

CollectivePoint point(int64_t bytes, double seconds) { return {bytes, seconds}; }

CollectiveProfile read_one(const std::string& text) {
  const auto all = read_collective_profiles(Json::parse(text, "p.json"));
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

TEST(CollectiveProfile, SurvivesItsDocument) {
  const CollectiveProfile before = sample(), after = read_one(profiles_json({before}));
  EXPECT_EQ(after.measured.kind, "all-reduce");
  EXPECT_EQ(after.library, "nccl-2.20.5");
  EXPECT_EQ(after.measured.devices, 8);
  EXPECT_EQ(after.measured.harness, before.measured.harness);
  ASSERT_EQ(after.measured.points.size(), 2u);
  EXPECT_EQ(after.measured.points[0].bytes, 1024);  // by size
  EXPECT_DOUBLE_EQ(after.measured.points[1].seconds, 3e-5);
}

TEST(CollectiveProfile, SeveralAreOneDocument) {
  CollectiveProfile other = sample();
  other.measured.kind = "all-gather";
  const auto after = read_collective_profiles(Json::parse(profiles_json({sample(), other}), "p.json"));
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0].measured.kind, "all-reduce");
  EXPECT_EQ(after[1].measured.kind, "all-gather");
}

TEST(CollectiveProfile, RefusesWhatItCannotUse) {
  const auto refused = [](const std::string& text) {
    EXPECT_THROW(read_collective_profiles(Json::parse(text, "p.json")), InputError) << text;
  };
  refused(R"({"schema": "tandem-report-1", "kind": "all-reduce", "points": []})");
  refused(R"({"schema": "tandem-collective-profile-1", "kind": "all-reduce", "points": []})");
  refused(
      R"({"schema": "tandem-collective-profile-1", "kind": "all-reduce", "points": [{"bytes": 0, "seconds": 1}]})");
  refused(
      R"({"schema": "tandem-collective-profile-1", "kind": "all-reduce", "points": [{"bytes": 8, "seconds": 0}]})");
  refused(R"({"schema": "tandem-collective-profiles-1", "profiles": []})");
  NcclLog nameless;
  EXPECT_THROW(profile_of(nameless, "a.txt", ""), InputError);
  EXPECT_EQ(profile_of(nameless, "a.txt", "broadcast").measured.kind, "broadcast");
  nameless.kind = "sendrecv";
  EXPECT_THROW(profile_of(nameless, "a.txt", "broadcast"), InputError);
}

TEST(CollectiveProfile, RunsOfALogAreChosenByKindAndThoseThatDoNotTellAreNamed) {
  NcclRuns log;
  log.runs.resize(3);
  for (NcclLog& run : log.runs) run.rows = {row(1024, 1e-5)};
  log.runs[0].kind = "all-reduce";
  log.runs[1].kind = "all-gather";
  log.runs[2].undecided = "this and that print the same columns";
  std::vector<std::string> notes;
  EXPECT_EQ(profiles_of(log, "a.txt", "", notes).size(), 2u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("this and that"), std::string::npos) << notes[0];
  const auto gathers = profiles_of(log, "a.txt", "all-gather", notes);
  ASSERT_EQ(gathers.size(), 1u)
      << "the nameless run counts as what is asked for, and is of the same question";
  EXPECT_EQ(profiles_of(log, "a.txt", "broadcast", notes).size(), 1u);
  log.runs.pop_back();
  EXPECT_THROW(profiles_of(log, "a.txt", "broadcast", notes), InputError);
}

TEST(CollectiveProfile, LogsOfOneQuestionAreJoined) {
  std::vector<CollectiveProfile> all = {sample()};
  CollectiveProfile more = sample();
  more.measured.points = {point(1024, 8e-5), point(2048, 5e-5)};
  add(all, more);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].measured.points.size(), 3u);
  EXPECT_NEAR(all[0].measured.points[0].seconds, 4e-5, 1e-12);  // the geometric mean of 2e-5 and 8e-5
  EXPECT_EQ(all[0].measured.points[1].bytes, 2048);
  more.measured.devices = 4;
  add(all, more);
  EXPECT_EQ(all.size(), 2u);
}

TEST(Interpolated, IsAPowerLawBetweenPointsAndHoldsTimeBelowAndBandwidthAbove) {
  const std::vector<CollectivePoint> points = {point(1024, 1e-5), point(4096, 4e-5)};
  EXPECT_NEAR(interpolated(points, 2048), 2e-5, 1e-12);
  EXPECT_NEAR(interpolated(points, 64), 1e-5, 1e-12);
  EXPECT_NEAR(interpolated(points, 8192), 8e-5, 1e-12);
}

/// What the spreads of sim/cost/measured_collectives.h are set on.
TEST(CollectiveProfile, NineOfTenPublishedSizesAreInsideTheirSpread) {
  std::map<std::string, std::map<std::string, std::map<int64_t, const CollectiveRow*>>> machines;
  const std::vector<CollectiveRow> rows = validate_collectives();
  for (const CollectiveRow& r : rows) {
    machines[r.table + r.system + r.sets + std::to_string(r.devices)][measured_name(r.kind)][r.bytes] = &r;
  }
  std::map<std::pair<Bearing, bool>, std::vector<double>> logs;  // of corrected over measured
  for (const auto& [machine, kinds] : machines) {
    for (const auto& [kind, sizes] : kinds) {
      const auto points_in = [](const auto& of) {
        std::vector<CollectivePoint> out;
        for (const auto& [bytes, r] : of) out.push_back({bytes, r->measured});
        return out;
      };
      for (const auto& [other, others] : kinds) {
        const Bearing how = bearing(kind, other);
        if (how == Bearing::none || sizes.size() < 4) continue;
        const auto points = how == Bearing::own ? every_second_size(points_in(sizes)) : points_in(sizes);
        if (points.size() < 3) continue;
        // Predictions of sizes that no row has are not asked for: ratios are taken at the points alone.
        for (const auto& [bytes, r] : others) {
          const auto at = std::find_if(points.begin(), points.end(),
                                       [&, b = bytes](const auto& p) { return p.bytes >= b; });
          if (at == points.end() || (how == Bearing::own && at->bytes == bytes)) continue;
          if (at == points.begin() && at->bytes != bytes) continue;
          const CollectiveCorrection correction(points, [&, &all = sizes](int64_t size) {
            const auto known = all.find(size);
            return known == all.end() ? 0.0 : known->second->predicted;
          });
          if (sizes.count(bytes) == 0) continue;
          logs[{how, bytes > 1 << 20}].push_back(r->log_ratio() + std::log(correction.factor(bytes)));
        }
      }
    }
  }
  ASSERT_EQ(logs.size(), 4u);
  for (const auto& [which, ratios] : logs) {
    const double within = std::log(1 + spread(which.first, which.second ? 1 << 24 : 1 << 10));
    const auto inside =
        std::count_if(ratios.begin(), ratios.end(), [&](double e) { return std::abs(e) <= within; });
    const double share = static_cast<double>(inside) / static_cast<double>(ratios.size());
    EXPECT_GT(ratios.size(), 300u);
    EXPECT_GE(share, 0.85) << static_cast<int>(which.first) << which.second;
    EXPECT_LE(share, 0.95) << static_cast<int>(which.first) << which.second;
    if (which.first == Bearing::sibling && which.second)
      EXPECT_LE(geometric_error(ratios), 0.12) << "what one operation is worth to the others";
  }
}

TEST(EverySecondSize, TakesPowersOfTwoFromTheFirstOn) {
  const auto taken =
      every_second_size({point(3000, 1), point(2048, 1), point(1024, 1), point(4096, 1), point(16384, 1)});
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].bytes, 1024);
  EXPECT_EQ(taken[1].bytes, 4096);
  EXPECT_EQ(taken[2].bytes, 16384);
}

}  // namespace
}  // namespace tandem::tests

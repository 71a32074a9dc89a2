// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_regret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

SplitRow row(const std::string& scheme, int64_t devices, double published, double predicted) {
  SplitRow out;
  out.file = "grid.json";
  out.system = "box";
  out.model = "net";
  out.precision = "fp16";
  out.scheme = scheme;
  out.devices = devices;
  out.published = published;
  out.predicted = predicted;
  return out;
}

TEST(Regret, IsWhatThePickLosesAgainstTheBest) {
  std::vector<SplitRow> rows = {row("a", 8, 90, 200), row("b", 8, 100, 150), row("c", 8, 50, 10),
                                row("alone", 4, 1, 1)};
  rows.push_back(row("doubtful", 8, 1000, 1));
  rows.back().doubtful = "contradicts";
  const auto grids = regret_grids({}, rows);
  ASSERT_EQ(grids.size(), 1u);  // one setting is no choice
  EXPECT_EQ(grids[0].settings.size(), 3u);
  EXPECT_EQ(grids[0].pick().measured, 90);
  EXPECT_EQ(grids[0].best().measured, 100);
  EXPECT_DOUBLE_EQ(grids[0].regret(), 0.1);
  EXPECT_DOUBLE_EQ(grids[0].regret_of_chance(), 0.2);
  EXPECT_THAT(regret_markdown(grids),
              ::testing::HasSubstr("| grid | 1 | 3 | 10.0 % | 0 % | 10.0 % | 0.0 % | 20.0 % |"));
}

TEST(Regret, IsNothingWhereTheOrderIsRight) {
  const auto grids = regret_grids({}, {row("a", 2, 10, 1), row("b", 2, 20, 2)});
  ASSERT_EQ(grids.size(), 1u);
  EXPECT_EQ(grids[0].regret(), 0);
}

TEST(Regret, TakesRowsOfOneSettingInTheMean) {
  const auto grids = regret_grids({}, {row("a", 2, 10, 2), row("b", 2, 20, 1), row("a", 2, 26, 2)});
  ASSERT_EQ(grids.size(), 1u);
  ASSERT_EQ(grids[0].settings.size(), 2u);
  EXPECT_EQ(grids[0].pick().measured, 18);
  EXPECT_DOUBLE_EQ(grids[0].regret(), 0.1);
}

TEST(Regret, OfTheFirstFiveIsThatOfTheBestOfThem) {
  std::vector<SplitRow> rows;
  for (const double measured : {50, 60, 70, 80, 90, 100})
    rows.push_back(row(std::to_string(measured), 8, measured, 1000 - measured));  // the slowest first
  const auto grids = regret_grids({}, rows);
  ASSERT_EQ(grids.size(), 1u);
  EXPECT_DOUBLE_EQ(grids[0].regret(), 0.5);
  EXPECT_DOUBLE_EQ(grids[0].regret_of_first(2), 0.4);
  EXPECT_DOUBLE_EQ(grids[0].regret_of_first(kFirstFive), 0.1);
  EXPECT_EQ(grids[0].regret_of_first(100), 0);
}

TEST(Regret, SaysHowFarThePicksRateIsOff) {
  const auto grids = regret_grids({}, {row("a", 8, 100, 120), row("b", 8, 100, 100)});
  EXPECT_THAT(regret_markdown(grids),
              ::testing::HasSubstr("the pick is predicted +20.0 % off on average, that of all settings of a "
                                   "grid +10.0 %. The pick is predicted 20.0 % faster than the second, and "
                                   "was 0.0 % faster"));
}

}  // namespace
}  // namespace tandem::tests

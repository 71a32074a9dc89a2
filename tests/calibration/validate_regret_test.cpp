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
  ASSERT_EQ(grids.size(), 1u);  // one configuration is no choice
  EXPECT_EQ(grids[0].configurations.size(), 3u);
  EXPECT_EQ(grids[0].pick().measured, 90);
  EXPECT_EQ(grids[0].best().measured, 100);
  EXPECT_DOUBLE_EQ(grids[0].regret(), 0.1);
  EXPECT_DOUBLE_EQ(grids[0].regret_of_chance(), 0.2);
  EXPECT_THAT(regret_markdown(grids),
              ::testing::HasSubstr("| grid | 1 | 3 | 10.0 % | 0 % | 10.0 % | 20.0 % |"));
}

TEST(Regret, IsNothingWhereTheOrderIsRight) {
  const auto grids = regret_grids({}, {row("a", 2, 10, 1), row("b", 2, 20, 2)});
  ASSERT_EQ(grids.size(), 1u);
  EXPECT_EQ(grids[0].regret(), 0);
}

TEST(Regret, TakesRowsOfOneConfigurationInTheMean) {
  const auto grids = regret_grids({}, {row("a", 2, 10, 2), row("b", 2, 20, 1), row("a", 2, 26, 2)});
  ASSERT_EQ(grids.size(), 1u);
  ASSERT_EQ(grids[0].configurations.size(), 2u);
  EXPECT_EQ(grids[0].pick().measured, 18);
  EXPECT_DOUBLE_EQ(grids[0].regret(), 0.1);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Probabilities against published order: which rows are a pair, and the score.
#include "calibration/validate/validate_chances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem::tests {
namespace {

ValidationRow rate(const std::string& system, double published, double predicted) {
  ValidationRow r;
  r.file = "held_out_x.json";
  r.source = "a paper";
  r.system = system;
  r.model = "net";
  r.held_out = true;
  r.published = published;
  r.rate.samples_per_second = predicted;
  r.rate.errors = {{"kernels", 0.5}, {system, 0.1}};
  return r;
}

TEST(Chances, MachinesOfOneSettingArePairsAndCommonErrorsCancel) {
  std::vector<ValidationRow> rows = {rate("fast", 100, 110), rate("slow", 120, 100), rate("other", 1, 1)};
  rows[2].batch = 64;  // another setting
  rows.push_back(rate("wrong", 1, 1000));
  rows.back().doubtful = "contradicts";
  const auto pairs = machine_contests(rows);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].first, "fast");
  EXPECT_FALSE(pairs[0].won());
  EXPECT_TRUE(pairs[0].held_out);
  const double z = std::log(1.1) / std::sqrt(0.02);
  const double probability = 0.5 * std::erfc(-z / std::sqrt(2.0));
  EXPECT_NEAR(pairs[0].probability, probability, 1e-9);
  EXPECT_NEAR(brier_score(pairs), probability * probability, 1e-9);
}

TEST(Chances, TheFasterByPredictionComesFirst) {
  const auto pairs = machine_contests({rate("slow", 90, 100), rate("fast", 100, 110)});
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].first, "fast");
  EXPECT_TRUE(pairs[0].won());
  EXPECT_GT(pairs[0].probability, 0.5);
}

TEST(Chances, RowsOfOneMachineCountInTheMeanAndEqualRatesNot) {
  const auto pairs = machine_contests({rate("a", 90, 100), rate("a", 110, 100), rate("b", 100, 110)});
  EXPECT_TRUE(pairs.empty()) << "100 on both";
}

TEST(Chances, TheScoreIsThatOfBrier) {
  Contest sure, unsure;
  sure.probability = 1;
  sure.ratio = 2;
  unsure.probability = 0.5;
  unsure.ratio = 0.5;
  EXPECT_EQ(brier_score({sure}), 0);
  EXPECT_EQ(brier_score({unsure}), 0.25);
  EXPECT_EQ(brier_score({sure, unsure}), 0.125);
  EXPECT_EQ(brier_score({}), 0);
  const std::string text = chances_markdown({sure, unsure}, {});
  EXPECT_THAT(text, ::testing::HasSubstr("| 99 % and more | 0 | – | – | 1 | 100 % | 100 % | 0 | – | – |"));
  EXPECT_THAT(text, ::testing::HasSubstr("0.125 over all"));
}

}  // namespace
}  // namespace tandem::tests

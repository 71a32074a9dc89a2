// SPDX-License-Identifier: Apache-2.0
// Boards that differ in one thing, published against predicted.
#include "calibration/validate/validate_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::tests {
namespace {

PairRow row(const std::string& plain, double published, double predicted) {
  PairRow out;
  out.plain = plain;
  out.published = published;
  out.predicted = predicted;
  out.interval = {predicted - 0.01, predicted + 0.01, 0.9};
  return out;
}

TEST(ValidatePairs, CountsEffectsBySignAndSize) {
  const std::vector<PairRow> rows = {row("a", 1.10, 1.05),    // found: half of it
                                     row("a", 1.10, 1.049),   // too little
                                     row("a", 1.10, 0.90),    // the wrong way
                                     row("a", 0.90, 0.85),    // found
                                     row("a", 1.00, 1.04),    // a false alarm
                                     row("b", 1.01, 1.029)};  // neither
  const PairSums all = sum_pairs(rows), a = sum_pairs(rows, "a");
  EXPECT_EQ(all.rows, 6);
  EXPECT_EQ(all.effects, 4);
  EXPECT_EQ(all.found, 2);
  EXPECT_EQ(all.false_alarms, 1);
  EXPECT_EQ(all.inside, 0);
  EXPECT_EQ(a.rows, 5);
  EXPECT_NEAR(sum_pairs({row("a", 1.25, 1.0)}).error, 0.2, 1e-12);
  EXPECT_NEAR(sum_pairs({row("a", 1.25, 1.0)}).error_of_one, 0.2, 1e-12);
  EXPECT_EQ(sum_pairs({}).error, 0);
}

/// Most effects of bridges in the published pairs are found, and hardly any is invented.
TEST(ValidatePairs, BridgesHelpWhereTheyDid) {
  const auto rows = validate_pairs();
  const PairSums s = sum_pairs(rows);
  EXPECT_EQ(s.rows, 72);
  EXPECT_EQ(s.effects, 6);
  EXPECT_GE(s.found, 4);
  EXPECT_LE(s.false_alarms, 3);
  EXPECT_LT(s.error, s.error_of_one);
  // Two cards without a bridge between them gain nothing from bridges elsewhere.
  for (const PairRow& r : rows) {
    if (r.devices == 2) EXPECT_NEAR(r.predicted, 1, 1e-6) << r.plain << " " << r.model;
  }
  const std::string text = pairs_markdown(rows), csv = pairs_csv(rows);
  EXPECT_NE(text.find("## Pairs"), std::string::npos);
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), rows.size() + 1);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_incast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::tests {
namespace {

TEST(ValidateIncast, BracketsThePublishedOnsetOfTimeouts) {
  double low = 1e9, high = 0, published = 0;
  for (const IncastRow& r : validate_incast()) {
    if (r.metric != "most_senders" || r.what.find("TCP times out") == std::string::npos ||
        r.what.find("DCTCP") != std::string::npos)
      continue;
    low = std::min(low, r.predicted);
    high = std::max(high, r.predicted);
    published = r.published;
  }
  EXPECT_LE(low, published);
  EXPECT_GE(high, published);
}

TEST(ValidateIncast, KnowsBoundsFromFigures) {
  using Is = IncastRow::Is;
  const auto met = [](Is is, double published, double predicted) {
    return IncastRow{"s", "w", "goodput", "1MB", is, published, predicted}.met();
  };
  EXPECT_TRUE(met(Is::equal, 10, 12));
  EXPECT_FALSE(met(Is::equal, 10, 13));
  EXPECT_TRUE(met(Is::at_least, 0.5, 0.5));
  EXPECT_FALSE(met(Is::at_least, 0.5, 0.49));
  EXPECT_TRUE(met(Is::at_most, 0.1, 0.02));
  EXPECT_FALSE(met(Is::at_most, 0.1, 0.2));
}

TEST(ValidateIncast, WritesEveryRowAndSource) {
  const auto rows = validate_incast();
  const std::string text = incast_markdown(rows);
  EXPECT_GT(rows.size(), 20U);
  for (const IncastRow& r : rows) {
    EXPECT_THAT(text, testing::HasSubstr("| " + r.what + " |"));
    EXPECT_THAT(text, testing::HasSubstr("- " + r.source + ": "));
  }
}

}  // namespace
}  // namespace tandem::tests

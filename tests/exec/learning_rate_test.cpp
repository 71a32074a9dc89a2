// SPDX-License-Identifier: Apache-2.0
// Learning rates against the figures of the rules' definitions.
#include "exec/run/learning_rate.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

TEST(Rate, StaysTheBaseUnlessScaled) {
  Execution::Rate rule;
  rule.base = 0.1;
  rule.warmup = 10;
  for (const int64_t i : {0, 5, 10, 1000}) EXPECT_FLOAT_EQ(learning_rate(rule, i, 8), 0.1F);
}

TEST(Rate, RisesLinearlyToBaseTimesWorkers) {
  Execution::Rate rule;
  rule.base = 0.1;
  rule.scale = true;
  EXPECT_FLOAT_EQ(learning_rate(rule, 0, 4), 0.4F) << "no warm-up: the full rate at once";
  rule.warmup = 100;
  EXPECT_FLOAT_EQ(learning_rate(rule, 0, 4), 0.1F);
  EXPECT_FLOAT_EQ(learning_rate(rule, 50, 4), 0.25F);
  EXPECT_FLOAT_EQ(learning_rate(rule, 100, 4), 0.4F);
  EXPECT_FLOAT_EQ(learning_rate(rule, 1'000'000, 4), 0.4F);
  EXPECT_FLOAT_EQ(learning_rate(rule, 50, 1), 0.1F) << "one worker has nothing to scale";
}

TEST(Rate, IsDividedByStaleness) {
  using enum Store::Rate;
  EXPECT_FLOAT_EQ(stale_rate(fixed, 0.6F, 3, 2), 0.6F) << "only when asked for";
  EXPECT_FLOAT_EQ(stale_rate(staleness, 0.6F, 0, 2), 0.6F);
  EXPECT_FLOAT_EQ(stale_rate(staleness, 0.6F, 1, 2), 0.6F);
  EXPECT_FLOAT_EQ(stale_rate(staleness, 0.6F, 3, 2), 0.2F);
}

TEST(Rate, OfWhatIsStalerThanThereAreWorkersIsLess) {
  for (const int64_t usual : {0, 1, 4}) EXPECT_FLOAT_EQ(stale_rate(Store::Rate::delay, 0.6F, usual, 4), 0.6F);
  EXPECT_FLOAT_EQ(stale_rate(Store::Rate::delay, 0.6F, 12, 4), 0.2F);
}

}  // namespace
}  // namespace tandem::tests

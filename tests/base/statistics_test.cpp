// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

TEST(Statistics, QuantilesLieBetweenSamplesOfAnyOrder) {
  const std::vector<double> v = {4, 1, 3, 2};
  EXPECT_EQ(quantile(v, 0), 1);
  EXPECT_EQ(quantile(v, 1), 4);
  EXPECT_EQ(median(v), 2.5);
  EXPECT_EQ(median({5, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(quantile(v, 0.25), 1.75);
  EXPECT_EQ(median({}), 0);
}

TEST(Statistics, KendallsTauCountsPairs) {
  EXPECT_EQ(kendall_tau({1, 2, 3, 4}, {10, 20, 30, 40}), 1);
  EXPECT_EQ(kendall_tau({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(kendall_tau({1, 2, 3, 4}, {1, 3, 2, 4}), 4.0 / 6);
  // Of 10 pairs one is equal in a and three in b; the other six agree.
  EXPECT_DOUBLE_EQ(kendall_tau({1, 1, 2, 3, 4}, {1, 2, 2, 2, 3}), 6 / std::sqrt(9.0 * 7));
  EXPECT_EQ(kendall_tau({1, 1}, {1, 2}), 0);
}

}  // namespace
}  // namespace tandem::tests

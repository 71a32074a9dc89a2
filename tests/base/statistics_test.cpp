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

}  // namespace
}  // namespace tandem::tests

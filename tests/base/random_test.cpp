// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/histogram.h"

namespace tandem::tests {
namespace {

TEST(Random, IsThePublishedSplitMix64) {
  SplitMix64 stream(1234567);  // first outputs of the authors' reference implementation for this seed
  EXPECT_EQ(stream.next(), 6457827717110365317ULL);
  EXPECT_EQ(stream.next(), 3203168211198807973ULL);
  EXPECT_EQ(stream.next(), 9817491932198370423ULL);
}

TEST(Random, EveryCoordinateChangesTheDraw) {
  const uint64_t base = draw_bits(1, 2, 3, 4, 5);
  EXPECT_EQ(base, draw_bits(1, 2, 3, 4, 5));
  for (const uint64_t other :
       {draw_bits(2, 2, 3, 4, 5), draw_bits(1, 3, 3, 4, 5), draw_bits(1, 2, 4, 4, 5),
        draw_bits(1, 2, 3, 5, 5), draw_bits(1, 2, 3, 4, 6), draw_bits(1, 3, 2, 4, 5)}) {
    EXPECT_NE(base, other);
  }
}

TEST(Random, NormalsHaveMeanZeroAndVarianceOne) {
  const int n = 200000;
  double sum = 0, squares = 0, above = 0;
  for (int i = 0; i < n; ++i) {
    const double x = to_normal(draw_bits(7, static_cast<uint64_t>(i)));
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    above += x > 1.6448536 ? 1 : 0;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.015);
  EXPECT_NEAR(above / n, 0.05, 0.0025);
  EXPECT_TRUE(std::isfinite(to_normal(0)));
  EXPECT_LT(to_unit(~0ULL), 1.0);
}

TEST(Histogram, IsExactForSmallValues) {
  Histogram h;
  for (int i = 0; i < 100; ++i) h.add(i);
  h.add(4095, 100);
  EXPECT_EQ(h.count(), 200);
  EXPECT_EQ(h.max(), 4095);
  EXPECT_DOUBLE_EQ(h.mean(), (4950.0 + 409500.0) / 200);
  EXPECT_EQ(h.quantile(0), 0);
  EXPECT_EQ(h.quantile(0.25), 49);
  EXPECT_EQ(h.quantile(0.5), 99);
  EXPECT_EQ(h.quantile(1), 4095);
  EXPECT_EQ(h.bins().size(), 101u);
}

TEST(Histogram, KeepsLargeValuesWithinOneInSixtyFour) {
  std::vector<int64_t> values;
  Histogram h;
  SplitMix64 random(3);
  for (int i = 0; i < 5000; ++i) {
    values.push_back(static_cast<int64_t>(random.next() >> (1 + random.next() % 60)));
    h.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.01, 0.1, 0.5, 0.9, 0.99}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * 5000)) - 1;
    const auto exact = static_cast<double>(values[rank]);
    const auto read = static_cast<double>(h.quantile(q));
    EXPECT_LE(read, exact);
    EXPECT_GE(read, exact * (1 - 1.0 / 64) - 1) << q;
  }
  EXPECT_EQ(h.max(), values.back());
}

TEST(Histogram, MergesAsIfAddedTogether) {
  Histogram a, b, both;
  for (int i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? a : b).add(i * 37);
    both.add(i * 37);
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_DOUBLE_EQ(a.mean(), both.mean());
  ASSERT_EQ(a.bins().size(), both.bins().size());
  for (std::size_t i = 0; i < a.bins().size(); ++i) {
    EXPECT_EQ(a.bins()[i].value, both.bins()[i].value);
    EXPECT_EQ(a.bins()[i].count, both.bins()[i].count);
  }
  const Histogram none;
  EXPECT_EQ(none.quantile(0.5), 0);
  EXPECT_EQ(none.mean(), 0);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

TEST(Scale, HasAFactorOfEachFeature) {
  const Lowered l = lower_one("scale", {{10, 64}}, "{}", 3, Precision::fp16);
  EXPECT_EQ(l.output, (Shape{10, 64}));
  EXPECT_EQ(parameters(l), 64);
  EXPECT_EQ(l.forward[0].read.n, 2 * (3 * 640 + 64));
  EXPECT_EQ(l.backward_data[0].read.n, 2 * (3 * 640 + 64));
  ASSERT_EQ(l.backward_weights.size(), 2U);
  EXPECT_EQ(l.backward_weights[0].written.n, 2 * 3 * 640) << "the product, whole";
  EXPECT_EQ(l.backward_weights[1].written.n, 2 * 64) << "and its sum";
  EXPECT_TRUE(l.keeps_input);
}

TEST(Scale, OfAnImageHasAFactorOfEachChannel) {
  EXPECT_EQ(parameters(lower_one("scale", {{64, 5, 7}}, R"({"axis": 0})")), 64);
}

}  // namespace
}  // namespace tandem::tests

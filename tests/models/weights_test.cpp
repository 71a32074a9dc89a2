// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

TEST(Weights, AreLearnedAndCostNoPass) {
  const Lowered l = lower_one("weights", {{10, 64}}, R"({"elements": 768})", 3, Precision::fp16);
  EXPECT_EQ(l.output, (Shape{10, 64}));
  EXPECT_EQ(parameters(l), 768);
  EXPECT_TRUE(l.in_place);
  EXPECT_TRUE(l.forward.empty() && l.backward_data.empty() && l.backward_weights.empty());
}

}  // namespace
}  // namespace tandem::tests

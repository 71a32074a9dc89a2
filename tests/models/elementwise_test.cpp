// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

Lowered of(const char* attributes) {
  return lower_one("elementwise", {{10, 64}}, attributes, 3, Precision::fp32);
}

TEST(Elementwise, KeepsWhatItsBackwardReads) {
  const int64_t all = 3 * 10 * 64;
  const Lowered none = of(R"({"flops": 0})"), input = of(R"({"keeps": "input"})"),
                output = of(R"({"keeps": "output"})"), mask = of(R"({"keeps": "mask"})");
  EXPECT_EQ(none.output, (Shape{10, 64}));
  EXPECT_EQ(none.forward[0].flops.n, 0);
  EXPECT_EQ(none.forward[0].read.n, 4 * all);
  EXPECT_EQ(none.backward_data[0].read.n, 4 * all);
  EXPECT_FALSE(none.keeps_input || none.keeps_output || input.keeps_output || output.keeps_input);
  EXPECT_TRUE(input.keeps_input && output.keeps_output);
  EXPECT_EQ(input.backward_data[0].read.n, 8 * all);
  EXPECT_EQ(own_kept_bytes(mask, 4), 10 * 64);
  EXPECT_EQ(mask.forward[0].read.n, 5 * all);
  EXPECT_THROW(of(R"({"keeps": "nothing"})"), InputError);
}

TEST(Matmul, MakesTheThreeProducts) {
  const Lowered l = lower_one("matmul", {{8, 10, 64}, {8, 64, 7}}, "{}", 3, Precision::fp16);
  EXPECT_EQ(l.output, (Shape{8, 10, 7}));
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{24, 10, 7, 64}));
  ASSERT_EQ(l.backward_data.size(), 2U);
  EXPECT_EQ(l.backward_data[0].shape, (std::vector<int64_t>{24, 10, 64, 7}));
  EXPECT_EQ(l.backward_data[1].shape, (std::vector<int64_t>{24, 64, 7, 10}));
  EXPECT_TRUE(l.keeps_input && l.parameters.empty() && l.backward_weights.empty());
  EXPECT_THROW(lower_one("matmul", {{10, 64}, {10, 64}}, "{}", 3, Precision::fp16), InputError);
  EXPECT_THROW(lower_one("matmul", {{10, 64}}, "{}", 3, Precision::fp16), InputError);
}

}  // namespace
}  // namespace tandem::tests

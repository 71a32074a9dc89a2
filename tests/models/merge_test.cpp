// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Add, CostsOnePassForwardAndNothingBackward) {
  const Lowered l = lower_one("add", {{64, 8, 8}, {64, 8, 8}}, "{}", 2);
  EXPECT_EQ(l.output, (Shape{64, 8, 8}));
  EXPECT_EQ(l.forward[0].read.n, 2 * 4 * 2 * 4096);
  EXPECT_EQ(l.forward[0].written.n, 4 * 2 * 4096);
  EXPECT_EQ(l.forward[0].flops.n, 2 * 4096);
  EXPECT_TRUE(l.backward_data.empty());
  EXPECT_FALSE(l.keeps_input);
  EXPECT_EQ(lower_one("add", {{8}, {8}, {8}}).forward[0].flops.n, 16);
}

TEST(Add, SumsTheGradientOfAStretchedInput) {
  const Lowered l = lower_one("add", {{10, 32}, {32}}, "{}", 2);
  ASSERT_EQ(l.backward_data.size(), 1U);
  EXPECT_EQ(l.backward_data[0].read.n, 4 * 2 * 320);
  EXPECT_EQ(l.backward_data[0].written.n, 4 * 2 * 32);
}

TEST(Mul, NeedsBothInputsAgain) {
  const Lowered l = lower_one("mul", {{16, 4, 4}, {16}}, "{}", 1);  // squeeze and excitation
  EXPECT_EQ(l.output, (Shape{16, 4, 4}));
  EXPECT_EQ(l.forward[0].read.n, 4 * (256 + 16));
  ASSERT_EQ(l.backward_data.size(), 2U);
  EXPECT_EQ(l.backward_data[0].written.n, 4 * 256);
  EXPECT_EQ(l.backward_data[1].read.n, 4 * 512);
  EXPECT_EQ(l.backward_data[1].written.n, 4 * 16);
  EXPECT_TRUE(l.keeps_input);
  for (const Kernel& k : l.backward_data) EXPECT_EQ(k.pass, Pass::backward_data);
}

TEST(Concat, CopiesBothWays) {
  const Lowered l = lower_one("concat", {{64, 8, 8}, {32, 8, 8}, {1, 8, 8}});
  EXPECT_EQ(l.output, (Shape{97, 8, 8}));
  EXPECT_EQ(l.forward[0].flops.n, 0);
  EXPECT_EQ(l.forward[0].read.n, 4 * 97 * 64);
  EXPECT_EQ(l.backward_data[0].written.n, 4 * 97 * 64);
  EXPECT_EQ(lower_one("concat", {{10, 4}, {10, 6}}, R"({"axis": 1})").output, (Shape{10, 10}));
}

TEST(MergeErrors, NameBothShapes) {
  EXPECT_THAT(error_of([] {
                lower_one("add", {{64, 8, 8}, {64, 4, 4}});
              }),
              HasSubstr("shapes 64x8x8 and 64x4x4 do not fit"));
  EXPECT_THAT(error_of([] { lower_one("mul", {{64, 8, 8}, {65}}); }), HasSubstr("64x8x8 and 65"));
  EXPECT_THAT(error_of([] { lower_one("add", {{64}}); }), HasSubstr("at least two inputs"));
  EXPECT_THAT(error_of([] {
                lower_one("concat", {{64, 8, 8}, {64, 4, 8}});
              }),
              HasSubstr("differ outside axis 0"));
  EXPECT_THAT(error_of([] { lower_one("concat", {{64, 8}, {64}}); }), HasSubstr("differ"));
}

TEST(Merge, AFactorMayBeOfAGroupOfFeatures) {
  const Lowered l = lower_one("mul", {{10, 64}, {10, 4}}, R"({"groups": 16})");
  EXPECT_EQ(l.output, (Shape{10, 64}));
  EXPECT_THAT(error_of([] { lower_one("mul", {{10, 64}, {10, 4}}); }), testing::HasSubstr("do not fit"));
}

}  // namespace
}  // namespace tandem::tests

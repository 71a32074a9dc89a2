// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Views, CostNothing) {
  for (const Lowered& l :
       {lower_one("flatten", {{256, 6, 6}}), lower_one("reshape", {{256, 36}}, R"({"shape": [9216]})"),
        lower_one("transpose", {{9216}}, R"({"order": [0]})")}) {
    EXPECT_EQ(l.output, Shape{9216});
    EXPECT_TRUE(l.in_place);
    EXPECT_TRUE(l.forward.empty() && l.backward_data.empty() && l.backward_weights.empty());
  }
}

TEST(Parts, AreViewsWhoseGradientIsCopied) {
  const Lowered split = lower_one("split", {{64, 8}}, R"({"parts": 4, "index": 3})", 2);
  EXPECT_EQ(split.output, (Shape{16, 8}));
  EXPECT_TRUE(split.forward.empty() && split.in_place);
  EXPECT_EQ(split.backward_data[0].written.n, 4 * 2 * 128);
  EXPECT_EQ(lower_one("slice", {{64, 8}}, R"({"axis": 1, "begin": 2, "end": 5})").output, (Shape{64, 3}));
  EXPECT_EQ(lower_one("slice", {{64, 8}}, R"({"axis": 1, "begin": 7})").output, (Shape{64, 1}));
}

TEST(Transpose, CopiesOnceEachWay) {
  const Lowered l = lower_one("transpose", {{3, 4, 5}}, R"({"order": [2, 0, 1]})");
  EXPECT_EQ(l.output, (Shape{5, 3, 4}));
  EXPECT_EQ(l.forward[0].read.n, 240);
  EXPECT_EQ(l.backward_data[0].written.n, 240);
  EXPECT_EQ(l.forward[0].flops.n, 0);
}

TEST(Pad, GrowsSpaceOnBothSides) {
  const Lowered l = lower_one("pad", {{3, 4, 5}}, R"({"amount": [1, 2]})");
  EXPECT_EQ(l.output, (Shape{3, 6, 9}));
  EXPECT_EQ(l.forward[0].read.n, 240);
  EXPECT_EQ(l.forward[0].written.n, 4 * 3 * 54);
}

TEST(ShapeErrors, SayWhatIsWrong) {
  const auto fails = [](const char* type, Shape in, const char* attributes) {
    return error_of([&] { lower_one(type, {in}, attributes); });
  };
  EXPECT_THAT(fails("reshape", {4, 4}, R"({"shape": [5, 3]})"),
              HasSubstr("5x3 has 15 elements, the input 4x4 has 16"));
  EXPECT_THAT(fails("reshape", {4, 4}, R"({"shape": [2147483647, 2147483647, 2147483647]})"),
              HasSubstr("too large"));
  EXPECT_THAT(fails("reshape", {4, 4}, R"({"shape": [0]})"), HasSubstr("outside 1"));
  EXPECT_THAT(fails("split", {10}, R"({"parts": 3, "index": 0})"), HasSubstr("3 parts do not divide"));
  EXPECT_THAT(fails("split", {10}, R"({"parts": 5, "index": 5})"),
              HasSubstr("\"index\" is 5, outside 0 .. 4"));
  EXPECT_THAT(fails("slice", {10}, R"({"begin": 10})"), HasSubstr("\"begin\" is 10"));
  EXPECT_THAT(fails("slice", {10}, R"({"begin": 5, "end": 5})"), HasSubstr("\"end\" is 5"));
  EXPECT_THAT(fails("transpose", {3, 4}, R"({"order": [0, 0]})"),
              HasSubstr("each of the input's dimensions"));
  EXPECT_THAT(fails("transpose", {3, 4}, R"({"order": [0, 1, 2]})"),
              HasSubstr("each of the input's dimensions"));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name;
  std::string type, attributes;
  Shape in, out;
  int64_t parameters, macs;  ///< of one sample
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
class Conv : public testing::TestWithParam<Case> {};

TEST_P(Conv, ShapeParametersAndFlops) {
  const Case& c = GetParam();
  constexpr int64_t kBatch = 3;
  const Lowered l = lower_one(c.type, {c.in}, c.attributes, kBatch);
  EXPECT_EQ(l.output, c.out);
  EXPECT_EQ(parameters(l), c.parameters);
  ASSERT_EQ(l.forward.size(), 1U);
  ASSERT_EQ(l.backward_data.size(), 1U);
  for (const Kernel& k : {l.forward[0], l.backward_data[0], l.backward_weights[0]}) {
    EXPECT_EQ(k.kind, KernelKind::conv);
    EXPECT_EQ(k.flops.n, 2 * kBatch * c.macs);
  }
  EXPECT_EQ(l.forward[0].pass, Pass::forward);
  EXPECT_EQ(l.backward_data[0].pass, Pass::backward_data);
  EXPECT_EQ(l.backward_weights[0].pass, Pass::backward_weights);
  const int64_t x = 4 * kBatch * elements(c.in);
  const int64_t y = 4 * kBatch * elements(c.out);
  const int64_t w = 4 * l.parameters[0].elements;
  EXPECT_EQ(l.forward[0].read.n, x + w);
  EXPECT_EQ(l.forward[0].written.n, y);
  EXPECT_EQ(l.backward_data[0].read.n, y + w);
  EXPECT_EQ(l.backward_data[0].written.n, x);
  EXPECT_EQ(l.backward_weights[0].read.n, x + y);
  EXPECT_EQ(l.backward_weights[0].written.n, w);
  EXPECT_TRUE(l.keeps_input);
  EXPECT_FALSE(l.keeps_output);
}

INSTANTIATE_TEST_SUITE_P(
    All, Conv,
    testing::Values(
        Case{"resnet_stem",
             "conv",
             R"({"filters": 64, "kernel": 7, "stride": 2, "pad": 3, "bias": false})",
             {3, 224, 224},
             {64, 112, 112},
             64 * 3 * 49,
             64LL * 112 * 112 * 3 * 49},
        Case{"vgg",
             "conv",
             R"({"filters": 64, "kernel": 3, "pad": 1})",
             {64, 224, 224},
             {64, 224, 224},
             64 * 64 * 9 + 64,
             64LL * 224 * 224 * 64 * 9},
        Case{"grouped",
             "conv",
             R"({"filters": 128, "kernel": 3, "pad": 1, "groups": 32, "bias": false})",
             {128, 56, 56},
             {128, 56, 56},
             128 * 4 * 9,
             128LL * 56 * 56 * 4 * 9},
        Case{"dilated",
             "conv",
             R"({"filters": 8, "kernel": 3, "dilation": 2})",
             {4, 10, 10},
             {8, 6, 6},
             8 * 4 * 9 + 8,
             8 * 36 * 4 * 9},
        Case{"oblong",
             "conv",
             R"({"filters": 8, "kernel": [1, 7], "pad": [0, 3], "bias": false})",
             {4, 10, 12},
             {8, 10, 12},
             8 * 4 * 7,
             8 * 120 * 4 * 7},
        Case{"same_even",
             "conv",
             R"({"filters": 8, "kernel": 3, "stride": 2, "pad": "same", "bias": false})",
             {3, 224, 224},
             {8, 112, 112},
             8 * 27,
             8LL * 112 * 112 * 27},
        Case{"same_odd",
             "conv",
             R"({"filters": 8, "kernel": 5, "stride": 2, "pad": "same", "bias": false})",
             {3, 15, 15},
             {8, 8, 8},
             8 * 75,
             8 * 64 * 75},
        Case{"one_dimension",
             "conv",
             R"({"filters": 16, "kernel": 5, "bias": false})",
             {4, 100},
             {16, 96},
             16 * 20,
             16 * 96 * 20},
        Case{"three_dimensions",
             "conv",
             R"({"filters": 16, "kernel": 3, "pad": 1, "bias": false})",
             {4, 6, 8, 8},
             {16, 6, 8, 8},
             16 * 4 * 27,
             16 * 384 * 4 * 27},
        Case{"depthwise",
             "depthwise-conv",
             R"({"kernel": 3, "stride": 2, "pad": 1, "bias": false})",
             {32, 112, 112},
             {32, 56, 56},
             32 * 9,
             32LL * 56 * 56 * 9},
        Case{"multiplied",
             "depthwise-conv",
             R"({"kernel": 3, "multiplier": 2})",
             {32, 10, 10},
             {64, 8, 8},
             64 * 9 + 64,
             64 * 64 * 9},
        Case{"transposed",
             "conv-transpose",
             R"({"filters": 64, "kernel": 2, "stride": 2})",
             {128, 28, 28},
             {64, 56, 56},
             128 * 64 * 4 + 64,
             128LL * 28 * 28 * 64 * 4},
        Case{"transposed_padded",
             "conv-transpose",
             R"({"filters": 8, "kernel": 3, "stride": 2, "pad": 1, "output_pad": 1, "bias": false})",
             {4, 7, 7},
             {8, 14, 14},
             4 * 8 * 9,
             4 * 49 * 8 * 9}),
    [](const auto& info) { return info.param.name; });

TEST(ConvBias, GradientReadsDyOnce) {
  const Lowered l = lower_one("conv", {{3, 8, 8}}, R"({"filters": 16, "kernel": 1})", 2, Precision::fp16);
  ASSERT_EQ(l.backward_weights.size(), 2U);
  EXPECT_EQ(l.backward_weights[1].read.n, 2 * 2 * 16 * 64);
  EXPECT_EQ(l.backward_weights[1].written.n, 2 * 16);
}

TEST(ConvErrors, SayWhatDoesNotFit) {
  const auto fails = [](const char* type, Shape in, const char* attributes) {
    return error_of([&] { lower_one(type, {in}, attributes); });
  };
  EXPECT_THAT(fails("conv", {3, 4, 4}, R"({"filters": 8, "kernel": 7})"),
              HasSubstr("a window of 7 does not fit the input 3x4x4"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": 8, "kernel": 3, "groups": 2})"),
              HasSubstr("2 groups do not divide 3 input"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": 8})"), HasSubstr("\"kernel\" is missing"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": -8, "kernel": 1})"),
              HasSubstr("\"filters\" is -8, outside 1"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": 8, "kernel": 1, "stride": 0})"),
              HasSubstr("\"stride\" is 0"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": 8, "kernel": [3, 3, 3]})"),
              HasSubstr("3 numbers for 2 dimensions"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": 8, "kernel": 1, "pad": "full"})"),
              HasSubstr("\"same\""));
  EXPECT_THAT(fails("conv", {3}, R"({"filters": 8, "kernel": 1})"), HasSubstr("at least 2 dimensions"));
  EXPECT_THAT(fails("conv", {3, 2, 2, 2, 2}, R"({"filters": 8, "kernel": 1})"), HasSubstr("1 to 3 spatial"));
  EXPECT_THAT(fails("conv-transpose", {3, 2, 2}, R"({"filters": 8, "kernel": 1, "pad": 4})"),
              HasSubstr("leaves nothing"));
  EXPECT_THAT(fails("conv", {3, 8, 8}, R"({"filters": 2147483647, "kernel": 2147483647, "pad": 2147483647})"),
              HasSubstr("too large"));
  EXPECT_THAT(error_of([] {
                lower_one("conv", {{3, 8, 8}, {3, 8, 8}}, R"({"filters": 8, "kernel": 1})");
              }),
              HasSubstr("takes one input, not 2"));
}

}  // namespace
}  // namespace tandem::tests

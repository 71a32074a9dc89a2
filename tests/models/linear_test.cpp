// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Linear, IsOneGemmPerPass) {
  const Lowered l = lower_one("linear", {{4096}}, R"({"features": 1000})", 32);
  EXPECT_EQ(l.output, Shape{1000});
  EXPECT_EQ(parameters(l), 4096 * 1000 + 1000);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{1, 32, 1000, 4096}));
  EXPECT_EQ(l.backward_data[0].shape, (std::vector<int64_t>{1, 32, 4096, 1000}));
  EXPECT_EQ(l.backward_weights[0].shape, (std::vector<int64_t>{1, 4096, 1000, 32}));
  for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) {
    EXPECT_EQ(list->front().flops.n, 2LL * 32 * 4096 * 1000);
  }
  EXPECT_TRUE(l.keeps_input);
}

TEST(Linear, TakesEveryTimeStepAsARow) {
  const Lowered l =
      lower_one("linear", {{128, 768}}, R"({"features": 3072, "bias": false})", 4, Precision::bf16);
  EXPECT_EQ(l.output, (Shape{128, 3072}));
  EXPECT_EQ(parameters(l), 768 * 3072);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{1, 512, 3072, 768}));
  EXPECT_EQ(l.forward[0].read.n, 2 * (512 * 768 + 768 * 3072));
  EXPECT_EQ(l.backward_weights.size(), 1U);
}

TEST(Linear, OfChannelsTakesEveryPositionAsARow) {
  const Lowered l = lower_one("linear", {{96, 7, 5}}, R"({"features": 384, "axis": 0})", 2);
  EXPECT_EQ(l.output, (Shape{384, 7, 5}));
  EXPECT_EQ(parameters(l), 96 * 384 + 384);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{1, 70, 384, 96}));
  EXPECT_EQ(l.backward_weights[0].shape, (std::vector<int64_t>{1, 96, 384, 70}));
}

TEST(TiedLinear, HasKernelsButNoParameters) {
  const Lowered l = lower_one("tied-linear", {{16, 64}}, R"({"vocabulary": 1000})");
  EXPECT_EQ(l.output, (Shape{16, 1000}));
  EXPECT_TRUE(l.parameters.empty());
  EXPECT_EQ(flops(l.forward), 2 * 16 * 64 * 1000);
  EXPECT_EQ(flops(l.backward_weights), 2 * 16 * 64 * 1000);
  EXPECT_EQ(parameters(lower_one("tied-linear", {{16, 64}}, R"({"vocabulary": 1000, "bias": true})")), 1000);
}

TEST(Linear, RefusesImages) {
  EXPECT_THAT(error_of([] {
                lower_one("linear", {{512, 7, 7}}, R"({"features": 10})");
              }),
              HasSubstr("put \"flatten\" before it"));
  EXPECT_THAT(error_of([] {
                lower_one("linear", {{512, 7, 7}}, R"({"features": 10, "axis": 1})");
              }),
              HasSubstr("or 0, the channels"));
  EXPECT_THAT(error_of([] {
                lower_one("linear", {{7, 512}}, R"({"features": 10, "axis": 0})");
              }),
              HasSubstr("\"axis\" is the last dimension"));
  EXPECT_THAT(error_of([] { lower_one("linear", {{512}}, R"({"feature": 10})"); }),
              HasSubstr("Did you mean feature"));
}

}  // namespace
}  // namespace tandem::tests

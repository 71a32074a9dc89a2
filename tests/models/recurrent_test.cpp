// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

class Recurrent : public testing::TestWithParam<std::pair<std::string, int64_t>> {};

TEST_P(Recurrent, MatchesTheFormulasOfItsGates) {
  const auto& [type, gates] = GetParam();
  constexpr int64_t kTime = 20, kFeatures = 100, kHidden = 64, kBatch = 4;
  const Lowered l = lower_one(type, {{kTime, kFeatures}}, R"({"hidden": 64})", kBatch);
  EXPECT_EQ(l.output, (Shape{kTime, kHidden}));
  EXPECT_EQ(parameters(l), gates * kHidden * (kFeatures + kHidden + 2));
  int64_t matrix = 0;
  for (const Kernel& k : l.forward) matrix += k.kind == KernelKind::gemm ? k.flops.n * k.repeat : 0;
  EXPECT_EQ(matrix, 2 * kBatch * kTime * gates * kHidden * (kFeatures + kHidden));
  EXPECT_EQ(l.forward[1].repeat, kTime);
  EXPECT_EQ(l.forward[1].shape, (std::vector<int64_t>{1, kBatch, gates * kHidden, kHidden}));
  // Both gradients of both products, and nothing else.
  int64_t backward = 0;
  for (const auto* list : {&l.backward_data, &l.backward_weights}) {
    for (const Kernel& k : *list) backward += k.kind == KernelKind::gemm ? k.flops.n * k.repeat : 0;
  }
  EXPECT_EQ(backward, 2 * matrix);
  ASSERT_EQ(l.backward_data.size(), 1U);  // the input's gradient alone can be left out
  EXPECT_EQ(l.backward_data[0].shape, (std::vector<int64_t>{1, kBatch * kTime, kFeatures, gates * kHidden}));
  EXPECT_TRUE(l.keeps_input && l.keeps_output);
}
INSTANTIATE_TEST_SUITE_P(All, Recurrent,
                         testing::Values(std::pair{"rnn", 1}, std::pair{"gru", 3}, std::pair{"lstm", 4}));

TEST(Recurrent, StacksAndDirectionsMultiply) {
  const Lowered l =
      lower_one("lstm", {{10, 32}}, R"({"hidden": 16, "layers": 2, "bidirectional": true, "bias": false})");
  EXPECT_EQ(l.output, (Shape{10, 32}));
  EXPECT_EQ(parameters(l), 2 * 4 * 16 * (32 + 16) * 2);  // the second layer reads both directions: 32 again
  EXPECT_EQ(l.forward.size(), 4U * 3);
  EXPECT_EQ(l.backward_data.size(), 2U);
  for (const Kernel& k : l.backward_weights) EXPECT_EQ(k.pass, Pass::backward_weights);
}

TEST(Recurrent, Refuses) {
  EXPECT_THAT(error_of([] { lower_one("lstm", {{10}}, R"({"hidden": 16})"); }),
              HasSubstr("at least 2 dimensions"));
  EXPECT_THAT(error_of([] {
                lower_one("lstm", {{3, 4, 5}}, R"({"hidden": 16})");
              }),
              HasSubstr("takes {time, features}"));
  EXPECT_THAT(error_of([] {
                lower_one("gru", {{3, 4}}, R"({"hidden": 16, "layers": 100000})");
              }),
              HasSubstr("\"layers\" is 100000"));
}

}  // namespace
}  // namespace tandem::tests

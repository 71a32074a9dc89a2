// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

struct Case {
  std::string type;
  bool in_place, keeps_input, keeps_output;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.type; }
};
class Activation : public testing::TestWithParam<Case> {};

TEST_P(Activation, PassesOverTheTensorAndKeepsWhatItsGradientNeeds) {
  const Lowered l = lower_one(GetParam().type, {{16, 4, 4}}, "{}", 2, Precision::fp16);
  EXPECT_EQ(l.output, (Shape{16, 4, 4}));
  EXPECT_TRUE(l.parameters.empty());
  ASSERT_EQ(l.forward.size(), 1U);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{512, 1}));
  EXPECT_EQ(l.forward[0].read.n, 1024);
  EXPECT_EQ(l.forward[0].written.n, 1024);
  EXPECT_GE(l.forward[0].flops.n, 512);
  EXPECT_EQ(l.backward_data[0].shape, (std::vector<int64_t>{512, 2}));
  EXPECT_EQ(l.backward_data[0].read.n, 2048);
  EXPECT_TRUE(l.backward_weights.empty());
  EXPECT_EQ(l.in_place, GetParam().in_place);
  EXPECT_EQ(l.keeps_input, GetParam().keeps_input);
  EXPECT_EQ(l.keeps_output, GetParam().keeps_output);
}
INSTANTIATE_TEST_SUITE_P(
    All, Activation,
    testing::Values(Case{"relu", true, false, true}, Case{"relu6", true, false, true},
                    Case{"leaky-relu", true, false, true}, Case{"clip", true, false, true},
                    Case{"sigmoid", false, false, true}, Case{"tanh", false, false, true},
                    Case{"gelu", false, true, false}, Case{"swish", false, true, false},
                    Case{"softplus", false, true, false}, Case{"hard-sigmoid", false, true, false},
                    Case{"hard-swish", false, true, false}, Case{"relu2", false, true, false}));

TEST(Dropout, KeepsAMaskOfOneByteAnElement) {
  const Lowered l = lower_one("dropout", {{10, 10}}, R"({"p": 0.1})", 4);
  EXPECT_EQ(l.forward[0].read.n, 1600);
  EXPECT_EQ(l.forward[0].written.n, 1600 + 400);
  EXPECT_EQ(l.backward_data[0].read.n, 1600 + 400);
  EXPECT_EQ(own_kept_bytes(l, 4), 100);
  EXPECT_EQ(lower_one("dropout", {{10, 10}}, "{}", 4, Precision::fp16).own[0].elements, 100);
  EXPECT_FALSE(l.keeps_input || l.keeps_output);
}

TEST(Dropout, OfNothingIsNothing) {
  const Lowered l = lower_one("dropout", {{10, 10}}, R"({"p": 0})");
  EXPECT_TRUE(l.forward.empty() && l.backward_data.empty() && l.in_place);
  EXPECT_THAT(error_of([] { lower_one("dropout", {{10}}, R"({"p": 1.5})"); }),
              testing::HasSubstr("1.5 is outside"));
}

TEST(Clip, NeedsAnInterval) {
  EXPECT_THAT(error_of([] { lower_one("clip", {{10}}, R"({"low": 2, "high": 1})"); }),
              testing::HasSubstr("above \"low\""));
}

/// As autograd's hooks count them in transformers 5.23: of quick_gelu the input and the sigmoid.
TEST(Activation, ComposedGelusKeepWhatTheirOperationsMake) {
  const auto kept = [](const std::string& attributes) {
    const Lowered l = lower_one("gelu", {{10}}, attributes);
    return (l.keeps_input ? 1 : 0) + own_kept_bytes(l, 4) / 40;
  };
  EXPECT_EQ(kept("{}"), 1);
  EXPECT_EQ(kept(R"({"composed": true})"), 4);
  EXPECT_EQ(kept(R"({"composed": true, "kept": 2})"), 2);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Attention, CountsScoresAndValues) {
  const Lowered l = lower_one("attention", {{1024, 3 * 768}}, R"({"heads": 12})", 2, Precision::fp16);
  EXPECT_EQ(l.output, (Shape{1024, 768}));
  EXPECT_TRUE(l.parameters.empty());
  ASSERT_EQ(l.forward.size(), 1U);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{2, 12, 12, 1024, 1024, 64, 0, 1}));
  EXPECT_EQ(l.forward[0].flops.n, 4LL * 2 * 12 * 1024 * 1024 * 64);
  constexpr int64_t kTensor = 2 * 2 * 1024 * 768;
  EXPECT_EQ(l.forward[0].read.n, 3 * kTensor);
  EXPECT_EQ(l.forward[0].written.n, kTensor);
  EXPECT_EQ(2 * l.backward_data[0].flops.n, 5 * l.forward[0].flops.n);
  EXPECT_EQ(l.backward_data[0].read.n, 5 * kTensor);
  EXPECT_EQ(l.backward_data[0].written.n, 3 * kTensor);
  EXPECT_TRUE(l.keeps_input && l.keeps_output);
  EXPECT_EQ(own_kept_bytes(l, 2), 4 * 12 * 1024);
}

TEST(Attention, CausalHalvesFlopsButNotBytes) {
  const Kernel full = lower_one("attention", {{512, 192}}, R"({"heads": 4})").forward[0];
  const Kernel causal = lower_one("attention", {{512, 192}}, R"({"heads": 4, "causal": true})").forward[0];
  EXPECT_EQ(full.flops.n, 2 * causal.flops.n);
  EXPECT_EQ(full.read, causal.read);
}

TEST(Attention, KeepsItsScoresWhereItIsNotFused) {
  const Lowered fused = lower_one("attention", {{512, 192}}, R"({"heads": 4})"),
                apart = lower_one("attention", {{512, 192}}, R"({"heads": 4, "fused": false})");
  EXPECT_EQ(own_kept_bytes(fused, 2), 4 * 4 * 512);
  EXPECT_EQ(own_kept_bytes(apart, 2), 4 * 512 * 512 * (2 + 1 + 2));
  EXPECT_EQ(apart.forward[0].flops, fused.forward[0].flops);
  EXPECT_EQ(apart.forward[0].shape.back(), 0);
}

TEST(Attention, GroupedQueriesShareKeysAndValues) {
  const Lowered l = lower_one("attention", {{256, (32 + 2 * 8) * 128}}, R"({"heads": 32, "kv_heads": 8})");
  EXPECT_EQ(l.output, (Shape{256, 4096}));
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{1, 32, 8, 256, 256, 128, 0, 1}));
  EXPECT_EQ(l.forward[0].read.n, 4 * 256 * (32 + 16) * 128);
}

TEST(Attention, CrossAttentionTakesThreeInputs) {
  const Lowered l = lower_one("attention", {{20, 512}, {50, 512}, {50, 512}}, R"({"heads": 8})");
  EXPECT_EQ(l.output, (Shape{20, 512}));
  EXPECT_EQ(l.forward[0].flops.n, 4 * 8 * 20 * 50 * 64);
  EXPECT_EQ(l.forward[0].read.n, 4 * 512 * (20 + 100));
}

TEST(Attention, RotaryTurnsQueriesAndKeys) {
  const Lowered l =
      lower_one("attention", {{256, 48 * 128}}, R"({"heads": 32, "kv_heads": 8, "rotary": true})", 2);
  ASSERT_EQ(l.forward.size(), 2U);
  EXPECT_EQ(l.forward[0].shape[0], 2 * 256 * 40 * 128);
  EXPECT_EQ(l.forward[1].kind, KernelKind::attention);
  EXPECT_EQ(l.backward_data[0].kind, KernelKind::attention);
  EXPECT_EQ(l.backward_data[1].pass, Pass::backward_data);
}

TEST(Attention, NormsOfHeadsHaveAScaleForQueriesAndOneForKeys) {
  const Lowered l = lower_one("attention", {{256, (32 + 2 * 8) * 128}},
                              R"({"heads": 32, "kv_heads": 8, "qk_norm": true})", 2);
  ASSERT_EQ(l.parameters.size(), 2U);
  EXPECT_EQ(l.parameters[0].elements + l.parameters[1].elements, 2 * 128);
  ASSERT_EQ(l.forward.size(), 3U);
  ASSERT_EQ(l.backward_weights.size(), 2U);
  // A pass over q and k that reads and writes each element, in rows of a head.
  EXPECT_EQ((l.forward[0].read + l.forward[1].read).n, 4LL * 2 * 256 * (32 + 8) * 128);
  EXPECT_EQ(l.forward[0].read, l.forward[0].written);
  EXPECT_EQ(l.forward[0].kind, KernelKind::norm);
  EXPECT_EQ(l.forward[2].kind, KernelKind::attention);
}

TEST(AttentionErrors, SayWhatDoesNotFit) {
  const auto fails = [](std::vector<Shape> in, const char* attributes) {
    return error_of([&] { lower_one("attention", in, attributes); });
  };
  EXPECT_THAT(fails({{10, 100}}, R"({"heads": 3})"), HasSubstr("the packed input has width 100"));
  EXPECT_THAT(fails({{10, 96}}, R"({"heads": 4, "kv_heads": 3})"),
              HasSubstr("3 key-value heads do not divide 4"));
  EXPECT_THAT(fails({{10, 64}, {10, 64}}, R"({"heads": 4})"), HasSubstr("one packed input or three"));
  EXPECT_THAT(fails({{10, 64}, {12, 64}, {13, 64}}, R"({"heads": 4})"),
              HasSubstr("k is 12x64 and v is 13x64"));
  EXPECT_THAT(fails({{10, 66}, {10, 64}, {10, 64}}, R"({"heads": 4})"), HasSubstr("q has width 66"));
  EXPECT_THAT(fails({{2, 3, 4}}, R"({"heads": 1})"), HasSubstr("takes inputs {time, width}"));
}

TEST(Attention, InWindowsIsOfManyShortSequences) {
  const Lowered l =
      lower_one("attention", {{64, 96}}, R"({"heads": 4, "parts": 4, "grid": 4, "shifted": true})", 2);
  EXPECT_EQ(l.output, (Shape{64, 32}));
  EXPECT_EQ(parameters(l), 7 * 7 * 4);
  EXPECT_EQ(l.forward.back().shape, (std::vector<int64_t>{8, 4, 4, 16, 16, 8, 0, 1}));
  const auto refusal = [](const char* attributes) {
    return error_of([&] { lower_one("attention", {{64, 96}}, attributes); });
  };
  EXPECT_THAT(refusal(R"({"heads": 4, "parts": 5})"), testing::HasSubstr("5 parts do not divide 64"));
  EXPECT_THAT(refusal(R"({"heads": 4, "parts": 8, "grid": 4})"), testing::HasSubstr("no square of windows"));
  EXPECT_THAT(refusal(R"({"heads": 4, "parts": 4, "shifted": true})"), testing::HasSubstr("of a \"grid\""));
  EXPECT_THAT(refusal(R"({"heads": 4, "parts": 4, "grid": 4, "causal": true})"),
              testing::HasSubstr("\"causal\" is not understood"));
}

/// 4 queries and 2 keys of 24 features, 2 values of 16; or 2 keys that are values too; or queries alone.
TEST(Attention, ValuesMayBeOfAnotherWidthOrKeysOrAnotherLayers) {
  const auto lowered = [](int64_t width, const std::string& more) {
    return lower_one(
        "attention", {{10, width}},
        R"({"heads": 4, "kv_heads": 2, "head_dim": 24, "causal": true, "qk_norm": true)" + more + "}");
  };
  const Lowered other = lowered(6 * 24 + 2 * 16, R"(, "v_head_dim": 16)"),
                one = lowered(6 * 24, R"(, "keys_as_values": true, "value_norm": true)"),
                shared = lowered(4 * 24, R"(, "shared_keys": true)");
  EXPECT_EQ(other.output, (Shape{10, 4 * 16}));
  EXPECT_EQ(one.output, (Shape{10, 4 * 24}));
  EXPECT_EQ(shared.output, (Shape{10, 4 * 24}));
  EXPECT_EQ(parameters(other), 2 * 24);
  EXPECT_EQ(parameters(one), 2 * 24) << "the norm of values has no scale";
  EXPECT_EQ(parameters(shared), 24);
  EXPECT_EQ(one.forward.size(), other.forward.size() + 1);
  EXPECT_THAT(
      error_of([&] { lowered(100, R"(, "v_head_dim": 16)"); }),
      HasSubstr(
          "the packed input has width 100, not 176: of 4 queries and 2 keys of 24, and 2 values of 16"));
}

}  // namespace
}  // namespace tandem::tests

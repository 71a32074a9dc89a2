// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(BatchNorm, ReadsTwiceWritesOnce) {
  const Lowered l = lower_one("batch-norm", {{64, 10, 10}}, "{}", 8);
  constexpr int64_t kBytes = 4 * 8 * 6400;
  EXPECT_EQ(l.output, (Shape{64, 10, 10}));
  EXPECT_EQ(parameters(l), 128);
  EXPECT_EQ(l.buffers, 128);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{64, 800}));
  EXPECT_EQ(l.forward[0].read.n, 2 * kBytes);
  EXPECT_EQ(l.forward[0].written.n, kBytes);
  // The sums are the parameters' gradients; then one more pass makes dx.
  EXPECT_EQ(l.backward_weights[0].read.n, 2 * kBytes);
  EXPECT_EQ(l.backward_weights[0].written.n, 4 * 128);
  EXPECT_EQ(l.backward_data[0].read.n, 2 * kBytes);
  EXPECT_EQ(l.backward_data[0].written.n, kBytes);
  EXPECT_TRUE(l.keeps_input);
}

TEST(BatchNorm, WithoutParametersStillNeedsTheSums) {
  const Lowered l = lower_one("batch-norm", {{64, 10, 10}}, R"({"affine": false})");
  EXPECT_TRUE(l.parameters.empty() && l.backward_weights.empty());
  ASSERT_EQ(l.backward_data.size(), 2U);
  EXPECT_EQ(l.backward_data[0].pass, Pass::backward_data);
}

/// Names of the layers with kernels that are made in a batch norm's launch; "'" behind those whose gradients
/// are.
std::vector<std::string> fused_layers(const std::string& layers) {
  const Graph graph = image_graph(layers);
  const auto lowered = graph.lower(2, Precision::fp32);
  const auto any = [](const std::vector<Kernel>& kernels) {
    return std::any_of(kernels.begin(), kernels.end(), [](const Kernel& k) { return k.fused; });
  };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    if (any(lowered[i].forward)) out.push_back(graph.layers()[i].name);
    if (any(lowered[i].backward_data)) out.push_back(graph.layers()[i].name + "'");
    EXPECT_FALSE(any(lowered[i].backward_weights));
  }
  return out;
}

TEST(BatchNorm, TakesOnARectifierAndAnAddition) {
  using testing::ElementsAre, testing::IsEmpty;
  const std::string conv = R"({"type":"conv","filters":3,"kernel":1,"name":"c"},)",
                    norm = R"({"type":"batch-norm","name":"n"},)";
  EXPECT_THAT(fused_layers(conv + norm + R"({"type":"relu","name":"r"})"), ElementsAre("r", "r'"));
  EXPECT_THAT(fused_layers(conv + norm + R"({"type":"relu6","name":"r"})"), ElementsAre("r", "r'"));
  EXPECT_THAT(fused_layers(conv + norm + R"({"type":"tanh"})"), IsEmpty());
  EXPECT_THAT(fused_layers(conv + R"({"type":"layer-norm"},{"type":"relu"})"), IsEmpty());
  EXPECT_THAT(fused_layers(R"({"type":"batch-norm","affine":false},{"type":"relu","name":"r"})"),
              ElementsAre("r"))
      << "of inputs there is no gradient";
  const std::string add = R"({"type":"add","name":"a","from":["c","n"]},)",
                    relu = R"({"type":"relu","name":"r"})";
  EXPECT_THAT(fused_layers(conv + norm + add + relu), ElementsAre("a", "r", "r'"));
  EXPECT_THAT(fused_layers(conv + norm + add + R"({"type":"tanh"})"), IsEmpty());
  EXPECT_THAT(fused_layers(conv + norm + R"({"type":"relu","name":"r"},{"type":"add","from":["r","n"]})"),
              IsEmpty())
      << "two read the norm";
  EXPECT_THAT(fused_layers(conv + norm + R"({"type":"conv","filters":3,"kernel":1,"from":"c","name":"d"},)" +
                           R"({"type":"add","from":["n","d"]},{"type":"relu"})"),
              IsEmpty())
      << "the norm is not the later of the two";
}

TEST(LayerNorm, WorksOnRows) {
  const Lowered l = lower_one("layer-norm", {{128, 768}}, "{}", 2);
  EXPECT_EQ(parameters(l), 2 * 768);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{256, 768}));
  EXPECT_EQ(l.forward[0].read.n, 4 * (256 * 768 + 2 * 768));
  EXPECT_EQ(l.forward[0].written.n, 4 * 256 * 768);
  EXPECT_EQ(l.backward_data[0].read.n, 2 * 4 * 256 * 768);
  EXPECT_EQ(l.backward_weights[0].written.n, 4 * 2 * 768);
  EXPECT_EQ(own_kept_bytes(l, 2), 4 * 2 * 128);
  EXPECT_EQ(parameters(lower_one("layer-norm", {{128, 768}}, R"({"bias": false})")), 768);
}

TEST(LayerNorm, OfChannelsTakesEveryPositionAsARow) {
  const Lowered l = lower_one("layer-norm", {{96, 7, 5}}, R"({"axis": 0})", 2);
  EXPECT_EQ(parameters(l), 2 * 96);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{70, 96}));
  EXPECT_EQ(parameters(lower_one("layer-norm", {{5, 96}}, R"({"affine": false})")), 0);
}

TEST(RmsNorm, HasAScaleOnly) {
  const Lowered l = lower_one("rms-norm", {{128, 768}});
  EXPECT_EQ(parameters(l), 768);
  EXPECT_EQ(own_kept_bytes(l, 4), 4 * (128 + 128 * 768));  // statistics and the normalised rows
  EXPECT_TRUE(l.keeps_input);
  EXPECT_FALSE(lower_one("rms-norm", {{128, 768}}, "{}", 1, Precision::bf16).keeps_input) << "an fp32 copy";
  EXPECT_LT(l.forward[0].flops, lower_one("layer-norm", {{128, 768}}).forward[0].flops);
}

TEST(GroupNorm, TakesGroupsOfChannels) {
  const Lowered l = lower_one("group-norm", {{64, 8, 8}}, R"({"groups": 32})", 2);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(parameters(l), 128);
  EXPECT_THAT(error_of([] {
                lower_one("group-norm", {{64, 8, 8}}, R"({"groups": 33})");
              }),
              HasSubstr("33 groups do not divide 64"));
}

TEST(PixelNorm, TakesTheChannelsOfAPixel) {
  const Lowered l = lower_one("pixel-norm", {{512, 4, 4}}, "{}", 2);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{32, 512}));
  EXPECT_TRUE(l.parameters.empty() && l.backward_weights.empty());
}

TEST(Lrn, GradientReadsThreeTensors) {
  const Lowered l = lower_one("lrn", {{96, 55, 55}}, R"({"window": 5})");
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{55 * 55, 96}));
  EXPECT_EQ(l.forward[0].flops.n, 10 * 96 * 55 * 55);
  EXPECT_EQ(l.backward_data[0].read.n, 3 * l.forward[0].read.n);
  EXPECT_TRUE(l.keeps_input && l.keeps_output);
  EXPECT_THAT(error_of([] { lower_one("lrn", {{3, 5, 5}}); }), HasSubstr("window of 5 channels"));
}

TEST(Norm, GroupsOfFeaturesShareTheirScales) {
  const Lowered l = lower_one("rms-norm", {{10, 64}}, R"({"width": 16})");
  EXPECT_EQ(parameters(l), 16);
  EXPECT_EQ(l.forward[0].shape, (std::vector<int64_t>{40, 16}));
  EXPECT_THAT(error_of([] {
                lower_one("rms-norm", {{10, 64}}, R"({"width": 24})");
              }),
              testing::HasSubstr("groups of 24 do not divide 64 features"));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schemes/setup/scheme.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Recompute parsed(std::string_view text) { return parse_recompute(text, {}); }

TEST(Recompute, WordsGiveThemselvesBack) {
  for (const char* text : {"off", "blocks", "products", "norms", "attention", "norms+activations",
                           "norms+activations+attention"})
    EXPECT_EQ(parsed(text).text(), text);
  EXPECT_EQ(parsed("activations+norms").text(), "norms+activations");
}

TEST(Recompute, UnknownWordsAreRefusedWithWhatIsValid) {
  for (const char* text : {"", "yes", "norms+", "blocks+norms", "norm"}) {
    try {
      parsed(text);
      FAIL() << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("Valid: off, blocks, products, or some of norms, activations and attention"));
    }
  }
}

/// The same kernels as in forward, of the layers that the word names and of no other.
TEST(Recompute, NamesLayersByTheirKind) {
  const Graph graph = Graph::load("llama3.2-1b:layers=1");
  const auto lowered = graph.lower(1, Precision::bf16);
  const auto again = [&](const char* text) {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < lowered.size(); ++i) {
      const auto kernels = kernels_again(parsed(text), graph.layers()[i], lowered[i]);
      if (kernels.empty()) continue;
      EXPECT_EQ(kernels.size(), lowered[i].forward.size());
      out.emplace_back(graph.layers()[i].type->name);
    }
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(again("off"), Names{});
  EXPECT_EQ(again("norms"), (Names{"rms-norm", "rms-norm", "rms-norm"}));
  EXPECT_EQ(again("activations"), (Names{"swish", "mul"}));
  EXPECT_EQ(again("attention"), Names{"attention"});
}

/// torchtitan 0.3.0, SelectiveAC: of wq, wk, wv, wo, w1, w3, w2 every second product is made again, attention
/// is not, and all else is.
TEST(Recompute, EverySecondProductStays) {
  const Graph graph = Graph::load("llama3-8b:layers=2");
  const std::vector<double> kept = kept_outputs(parsed("products"), graph);
  const auto lowered = graph.lower(1, Precision::bf16);
  EXPECT_TRUE(kept_outputs(parsed("blocks"), graph).empty());
  std::vector<std::string> whole, again;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::string& name = graph.layers()[i].name;
    if (name.rfind("decoder.1.", 0) != 0) continue;
    const auto kernels = kernels_but(lowered[i].forward, kept[i]);
    if (name == "decoder.1.qkv") {
      EXPECT_DOUBLE_EQ(kept[i], 40.0 / 48);  // queries and values of 32 heads and 8
      ASSERT_EQ(kernels.size(), 1U);
      EXPECT_EQ(kernels[0].flops.n, int64_t{2} * 8192 * 4096 * 1024);
      continue;
    }
    EXPECT_EQ(kernels.empty(), kept[i] == 1);
    if (graph.layers()[i].type->name == "linear" || kept[i] > 0)
      (kept[i] > 0 ? whole : again).push_back(name);
  }
  EXPECT_THAT(whole, testing::ElementsAre("decoder.1.attention1", "decoder.1.gate", "decoder.1.down"));
  EXPECT_THAT(again, testing::ElementsAre("decoder.1.projection", "decoder.1.up"));
  EXPECT_EQ(resolve_scheme("torchtitan", {}).recompute, parsed("products"));
  EXPECT_EQ(resolve_scheme("megatron", {}).recompute, parsed("off"));
}

/// Of experts the activation of the gate and its product with the other half, not the large products.
TEST(Recompute, ExpertsMakeTheirActivationsAgain) {
  const Graph graph = Graph::load("mixtral-8x7b:layers=1");
  const auto lowered = graph.lower(1, Precision::bf16);
  int64_t kernels = 0;
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    const Layer& layer = graph.layers()[i];
    if (layer.type == nullptr || layer.type->name != "experts") continue;
    int64_t dropped = 0;
    for (const OwnTensor& own : lowered[i].own) {
      if (parsed("activations").drops_own(lowered[i], own)) dropped += own.elements;
      EXPECT_FALSE(parsed("norms").drops_own(lowered[i], own));
    }
    EXPECT_EQ(dropped, int64_t{2} * 4096 * 2 * 14336);  // tokens x experts of each x width, twice
    for (const Kernel& k : kernels_again(parsed("activations"), layer, lowered[i])) {
      EXPECT_EQ(k.kind, KernelKind::elementwise);
      ++kernels;
    }
  }
  EXPECT_EQ(kernels, 2);
}

}  // namespace
}  // namespace tandem::tests

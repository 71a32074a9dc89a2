// SPDX-License-Identifier: Apache-2.0
#include "models/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::tests {
namespace {

using namespace tandem::models;

TEST(Blocks, AreCountedWhereAllAreEqual) {
  EXPECT_EQ(equal_blocks(Graph::load("llama3-8b")), 32);
  EXPECT_EQ(equal_blocks(Graph::load("gpt2-xl")), 48);
  EXPECT_EQ(equal_blocks(Graph::load("mixtral-8x7b")), 32);
  EXPECT_EQ(equal_blocks(Graph::load("gpt-oss-20b")), 12);  // of two, one with a window
  EXPECT_EQ(equal_blocks(Graph::load("deepseek-v2")), 59);  // behind one without experts
  EXPECT_EQ(equal_blocks(Graph::load("vgg16")), 0);
}

TEST(Blocks, OneAfterAnotherAddTheSame) {
  for (const char* model :
       {"llama3-8b", "gpt2", "mixtral-8x7b", "bert-large", "vit-b16", "deepseek-v3", "gpt-oss-20b"}) {
    const Graph whole = Graph::load(model);
    const int64_t all = equal_blocks(whole);
    ASSERT_GT(all, 4) << model;
    const Graph two = with_blocks(whole, 2), four = with_blocks(whole, 4);
    const auto of_all = [&](auto few, auto more) { return few + (more - few) / 2 * (all - 2); };
    EXPECT_EQ(of_all(two.parameter_elements(), four.parameter_elements()), whole.parameter_elements());
    EXPECT_EQ(of_all(two.forward_flops().n, four.forward_flops().n), whole.forward_flops().n);
    EXPECT_EQ(of_all(two.layers().size(), four.layers().size()), whole.layers().size());
    EXPECT_EQ(with_blocks(whole, all).layers().size(), whole.layers().size());
    EXPECT_EQ(two.tokens_per_sample(), whole.tokens_per_sample());
  }
}

TEST(Blocks, BehindTheLastReadWhatStays) {
  const Graph whole = Graph::load("gpt2"), one = with_blocks(whole, 1);
  const auto& layers = one.layers();
  const auto head = std::find_if(layers.begin(), layers.end(), [](const Layer& l) {
    return l.type != nullptr && l.type->name == "tied-linear";
  });
  ASSERT_NE(head, layers.end());
  const Layer& norm = layers[head->inputs[0]];
  EXPECT_EQ(block_of(norm), "");
  EXPECT_EQ(block_of(layers[norm.inputs[0]]), "decoder.0");
  EXPECT_TRUE(one.tied_to(static_cast<uint32_t>(head - layers.begin())));
}

TEST(Blocks, OfATensorParallelSliceAddTheSame) {
  const ModelSlice shared{.ways = 4, .sequence = true};
  const Graph whole = Graph::load("llama3-8b");
  const auto parameters = [&](const Graph& g) { return g.slice(shared).parameter_elements(); };
  const int64_t few = parameters(with_blocks(whole, 2)), more = parameters(with_blocks(whole, 4));
  EXPECT_EQ(few + (more - few) / 2 * 30, parameters(whole));
}

}  // namespace
}  // namespace tandem::tests

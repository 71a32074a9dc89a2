// SPDX-License-Identifier: Apache-2.0
// Layers whose weights stay as they are: what is learned beside them gets the gradients that it gets where
// all is learned, and they themselves none.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/adapter.h"
#include "tests/exec/test_run.h"

namespace tandem::tests {
namespace {

struct Frozen {
  std::string model;
  std::vector<std::string> names;
};

TEST(FrozenLayers, LeaveTheOthersTheirGradients) {
  for (const Frozen& c : std::vector<Frozen>{
           {"resnet20-cifar:depth=1", {"conv1", "batch-norm1"}},
           {"resnet20-cifar:depth=1", {"stage2"}},
           {std::string(TANDEM_ROOT) + "/tests/cross/text.json", {"decoder.0"}},
           {std::string(TANDEM_ROOT) + "/tests/cross/text.json", {"norm1", "projection"}},
           {std::string(TANDEM_ROOT) + "/tests/cross/split.json", {"in", "decoder.1", "last"}},
           {std::string(TANDEM_ROOT) + "/tests/cross/experts.json", {"in", "decoder.0", "experts"}},
           {"qwen3-30b-a3b:layers=2,hidden=32,heads=4,kv_heads=2,head_dim=8,feed=16,vocabulary=60,"
            "sequence=12,experts=8,active=3",
            {"attention1", "norm2"}}}) {
    const Graph graph = Graph::load(c.model), frozen = with_frozen(graph, c.names, Place{});
    TestRun whole(graph, 5), part(frozen, 5);
    whole.randomise(3);
    part.randomise(3);  // the same inputs
    const auto& of_whole = whole.execution_graph();
    const auto& of_part = part.execution_graph();
    EXPECT_EQ(of_part.parameters() + of_part.frozen_elements(), of_whole.parameters());
    EXPECT_GT(of_part.frozen_elements(), 0);
    const auto same = [&](const LearnedTensor& l) {
      return *std::find_if(of_whole.learned().begin(), of_whole.learned().end(),
                           [&](const LearnedTensor& w) { return w.layer == l.layer && w.index == l.index; });
    };
    for (const auto* list : {&of_part.learned(), &of_part.frozen()}) {
      for (const LearnedTensor& l : *list)
        std::copy_n(whole.at(same(l).parameter), of_part.tensors()[l.parameter].elements,
                    part.at(l.parameter));
    }
    for (TestRun* run : {&whole, &part}) {
      run->forward();
      run->backward();
    }
    EXPECT_EQ(part.loss(), whole.loss()) << c.model;
    for (const LearnedTensor& l : of_part.learned()) {
      for (int64_t i = 0; i < of_part.tensors()[l.gradient].elements; ++i)
        ASSERT_EQ(part.at(l.gradient)[i], whole.at(same(l).gradient)[i])
            << c.model << " " << graph.layers()[l.layer].name << " element " << i;
    }
  }
}

/// The adapters' second matrices start at zero, so that the model starts as it was.
TEST(Adapters, StartWithoutEffect) {
  const Graph graph = with_adapter(Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/split.json"),
                                   parse_adapter("lora:rank=2,on=attention+mlp", Place{}), Place{});
  const ExecutionGraph lowered(graph, 2);
  std::size_t zero = 0, drawn = 0;
  for (const LearnedTensor& l : lowered.learned()) {
    const std::string& name = graph.layers()[l.layer].name;
    EXPECT_TRUE(name.ends_with(".lora_a") || name.ends_with(".lora_b")) << name;
    EXPECT_EQ(l.bound == 0, name.ends_with(".lora_b")) << name;
    ++(l.bound == 0 ? zero : drawn);
  }
  EXPECT_EQ(zero, drawn);
  EXPECT_EQ(zero, 4U * 7U);  // query, key, value, projection, gate, up and down of four blocks
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Layers whose weights stay as they are: what is learned beside them gets the gradients that it gets where
// all is learned, and they themselves none.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "exec/lower/stored.h"
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

std::vector<float> random_values(int64_t n, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& v : out) v = static_cast<float>(2 * to_unit(random.next()) - 1);
  return out;
}

std::vector<float> written_out(const StoredShape& s, const std::vector<float>& stored) {
  std::vector<float> out;
  const auto* bytes = reinterpret_cast<const int8_t*>(stored.data() + s.floats());
  for (int64_t i = 0; i < s.elements; ++i) out.push_back(s.value(stored.data(), bytes, i));
  return out;
}

/// The largest gap between levels is 0.304 of a block's largest magnitude; 8 bits have steps of 1/127. Scales
/// in 8 bits are off by half a step of their spread.
TEST(StoredWeights, AreAsNearAsTheirFormatAllows) {
  for (const int64_t rows : {1, 3, 64, 100}) {
    const int64_t columns = 48, n = rows * columns;
    const std::vector<float> values = random_values(n, 5);
    for (const auto& [format, most] : std::vector<std::pair<std::string, float>>{
             {"nf4", 0.1521F}, {"nf4-dq", 0.16F}, {"int8", 0.00394F}}) {
      const StoredShape s(stored_shape(n, columns, format));
      const std::vector<float> back = written_out(s, store(s, values.data()));
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(back[i], values[i], most) << format;
    }
  }
}

/// What is a level of its block, or a step of its column, is kept exactly.
TEST(StoredWeights, KeepWhatTheFormatHas) {
  const StoredShape s(stored_shape(128, 8, "nf4")), bytes(stored_shape(128, 8, "int8"));
  std::vector<float> levels, steps;
  for (int i = 0; i < 128; ++i) {
    levels.push_back((i < 64 ? 0.5F : 3.0F) * StoredShape::level(i * 7 % 16));
    steps.push_back(2.0F * static_cast<float>(i < 8 ? 127 : i - 64) / 127);
  }
  EXPECT_EQ(written_out(s, store(s, levels.data())), levels);
  EXPECT_EQ(written_out(bytes, store(bytes, steps.data())), steps);
  const std::vector<float> zero(128, 0.0F);
  for (const char* format : {"nf4", "nf4-dq", "int8"}) {
    const StoredShape z(stored_shape(128, 8, format));
    EXPECT_EQ(written_out(z, store(z, zero.data())), zero);
  }
}

/// Passes with stored weights are those with what these are written out to; and take the model's bits.
TEST(StoredWeights, AreWrittenOutInBothPasses) {
  const Graph base = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/split.json");
  for (const std::string format : {"nf4", "nf4-dq", "int8"}) {
    const auto adapted = [&](const std::string& store) {
      return with_adapter(base, parse_adapter("lora:rank=2,on=attention+mlp,store=" + store, Place{}),
                          Place{});
    };
    const Graph stored = adapted(format), plain = adapted("half");
    TestRun small(stored, 3), whole(plain, 3);
    small.randomise(3);
    whole.randomise(3);
    const ExecutionGraph& of = small.execution_graph();
    const std::vector<float> values = random_values(of.frozen_elements(), 9), packed = of.stored(values);
    std::vector<float> back = values;
    double bits = 0, models = 0;
    for (const LearnedTensor& l : of.frozen()) {
      if (l.stored.empty()) continue;
      const StoredShape s(l.stored);
      const auto from = packed.begin() + of.tensors()[l.parameter].offset;
      std::ranges::copy(written_out(s, {from, from + s.words()}), back.begin() + l.first);
      // Of few columns and blocks, the model counts no scales or a part of one.
      bits += 32.0 * static_cast<double>(s.words() - (format == "nf4" ? 0 : s.floats()));
      models += stored.layers()[l.layer].frozen_bits * static_cast<double>(s.elements);
    }
    small.set_frozen(values);
    whole.set_frozen(back);
    for (TestRun* run : {&small, &whole}) {
      run->forward();
      run->backward();
    }
    EXPECT_NEAR(small.loss(), whole.loss(), 1e-5) << format;
    const std::vector<float> got = small.gradients(), want = whole.gradients();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << format;
    EXPECT_NE(back, values);
    EXPECT_NEAR(bits, models, 0.01 * models) << format;
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

// SPDX-License-Identifier: Apache-2.0
// Slices of models: what one device keeps where layers and ranges of layers are dealt out.
#include <gtest/gtest.h>

#include "models/graph.h"

namespace tandem::models {
namespace {

const Layer& layer(const Graph& g, const std::string& name) {
  for (const Layer& l : g.layers()) {
    if (l.name == name) return l;
  }
  throw std::runtime_error("no layer " + name);
}

const Lowered& lowered(const Graph& g, const std::vector<Lowered>& all, const std::string& name) {
  return all[static_cast<std::size_t>(&layer(g, name) - g.layers().data())];
}

Flops flops(const std::vector<Kernel>& kernels) {
  Flops sum;
  for (const Kernel& k : kernels) sum += k.flops * k.repeat;
  return sum;
}

const std::string kSmall = "gpt2:layers=2,hidden=64,heads=8,sequence=32,vocabulary=256";

TEST(Slice, OfEverythingIsTheModel) {
  const Graph whole = Graph::load(kSmall), same = whole.slice({});
  EXPECT_EQ(same.parameter_elements(), whole.parameter_elements());
  const auto a = whole.lower(4, Precision::fp16), b = same.lower(4, Precision::fp16);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(flops(a[i].forward).n, flops(b[i].forward).n);
    EXPECT_EQ(flops(a[i].backward_data).n, flops(b[i].backward_data).n);
    EXPECT_EQ(flops(a[i].backward_weights).n, flops(b[i].backward_weights).n);
  }
}

// Shoeybi et al. 2019: of a transformer layer's 12 h^2 weights each of t devices has 12 h^2 / t; norms and
// the biases of row-split layers are on all of them.
TEST(Slice, SharesWeightsEvenly) {
  const Graph whole = Graph::load(kSmall);
  for (const int32_t t : {2, 4, 8}) {
    const Graph part = whole.slice({{}, t, false});
    EXPECT_EQ(layer(part, "decoder.0.qkv").parameters[0].elements * t, 3 * 64 * 64);
    EXPECT_EQ(layer(part, "decoder.0.qkv").parameters[1].elements * t, 3 * 64);
    EXPECT_EQ(layer(part, "decoder.0.projection").parameters[0].elements * t, 64 * 64);
    EXPECT_EQ(layer(part, "decoder.0.projection").parameters[1].elements, 64);
    EXPECT_EQ(layer(part, "decoder.1.down").parameters[0].elements * t, 4 * 64 * 64);
    EXPECT_EQ(layer(part, "embedding1").parameters[0].elements * t, 256 * 64);
    EXPECT_EQ(layer(part, "decoder.0.norm1").parameter_elements(),
              layer(whole, "decoder.0.norm1").parameter_elements());
  }
}

TEST(Slice, SharesMatrixProductsEvenly) {
  const Graph whole = Graph::load(kSmall);
  const auto all = whole.lower(2, Precision::fp16);
  for (const bool sequence : {false, true}) {
    const Graph part = whole.slice({{}, 4, sequence});
    const auto own = part.lower(2, Precision::fp16);
    for (const char* name : {"decoder.0.qkv", "decoder.0.attention1", "decoder.0.projection", "decoder.1.up",
                             "decoder.1.down", "tied-linear1"}) {
      EXPECT_EQ(matrix_flops(lowered(part, own, name)).n * 4, matrix_flops(lowered(whole, all, name)).n)
          << name;
    }
    const int64_t norms = sequence ? 4 : 1;  // only the sequence's parts divide what is between
    EXPECT_EQ(flops(lowered(part, own, "decoder.0.norm1").forward).n * norms,
              flops(lowered(whole, all, "decoder.0.norm1").forward).n);
  }
}

TEST(Slice, SaysWhatPartnersOweEachOther) {
  const Graph whole = Graph::load(kSmall);
  const Graph part = whole.slice({{}, 2, false}), cut = whole.slice({{}, 2, true});
  const auto a = part.lower(1, Precision::fp32), b = cut.lower(1, Precision::fp32);
  EXPECT_EQ(lowered(part, a, "decoder.0.qkv").input_join, Join::copy);
  EXPECT_EQ(lowered(part, a, "decoder.0.down").output_join, Join::sum);
  EXPECT_EQ(lowered(part, a, "embedding1").output_join, Join::sum);
  EXPECT_EQ(lowered(cut, b, "decoder.0.up").input_join, Join::gather);
  EXPECT_EQ(lowered(cut, b, "decoder.0.projection").output_join, Join::scatter);
  EXPECT_EQ(lowered(cut, b, "decoder.0.projection").output, (Shape{16, 64}));
  EXPECT_EQ(lowered(cut, b, "decoder.0.qkv").output, (Shape{32, 96}));
  EXPECT_EQ(lowered(part, a, "decoder.0.norm1").input_join, Join::none);
}

TEST(Slice, OfLayersKeepsIndicesAndGradients) {
  const Graph whole = Graph::load(kSmall);
  uint32_t cut = 0;
  while (block_of(whole.layers()[cut]) != "decoder.1") ++cut;
  const auto count = static_cast<uint32_t>(whole.layers().size());
  const Graph first = whole.slice({{{0, cut}}}), second = whole.slice({{{cut, count - cut}}});
  ASSERT_EQ(first.layers().size(), count);
  ASSERT_EQ(second.layers().size(), count);
  EXPECT_EQ(second.layers()[cut - 1].type, nullptr);
  EXPECT_EQ(elements(second.layers()[cut - 1].output), 32 * 64);  // what the first stage sends
  const auto all = whole.lower(2, Precision::fp32), a = first.lower(2, Precision::fp32),
             b = second.lower(2, Precision::fp32);
  for (uint32_t i = 0; i < count; ++i) {
    const bool mine = i < cut;
    const std::string& name = whole.layers()[i].name;
    EXPECT_EQ(flops((mine ? a : b)[i].forward).n, flops(all[i].forward).n) << name;
    EXPECT_TRUE((mine ? b : a)[i].forward.empty()) << name;
    EXPECT_EQ(flops((mine ? a : b)[i].backward_weights).n, flops(all[i].backward_weights).n) << name;
    // Whoever reads a tensor sums the gradients of its readers, before it sends them.
    EXPECT_EQ(flops(a[i].backward_data).n + flops(b[i].backward_data).n, flops(all[i].backward_data).n)
        << name;
  }
  // The tied weight is on both sides.
  EXPECT_EQ(first.parameter_elements() + second.parameter_elements(), whole.parameter_elements() + 256 * 64);
}

void expect_refusal(const std::string& model, int32_t ways, bool sequence, const std::string& why) {
  try {
    (void)Graph::load(model).slice({{}, ways, sequence});
    FAIL() << "nothing thrown";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TEST(Slice, KnowsWhoseWeightAnOutputLayerUses) {
  const Graph whole = Graph::load(kSmall);
  const auto index = [&](const std::string& name) {
    return static_cast<uint32_t>(&layer(whole, name) - whole.layers().data());
  };
  const uint32_t embedding = index("embedding1"), head = index("tied-linear1");
  EXPECT_EQ(whole.tied_to(head), embedding);
  EXPECT_EQ(whole.tied_to(embedding), std::nullopt);
  EXPECT_EQ(whole.slice({{}, 2, false}).tied_to(head), embedding);
  const Graph last = whole.slice({{{head, 2}}, 2, false});
  EXPECT_EQ(last.tied_to(head), std::nullopt);  // it has a copy
  ASSERT_EQ(last.layers()[head].parameters.size(), 1U);
  EXPECT_EQ(last.layers()[head].parameters[0].elements * 2, 256 * 64);
}

// Each device tells the others three numbers of every row.
TEST(Slice, DividedClassesAreJudgedTogether) {
  const Graph whole = Graph::load(kSmall);
  const auto all = whole.lower(2, Precision::bf16);
  const Lowered& alone = lowered(whole, all, "cross-entropy1");
  EXPECT_TRUE(alone.forward_exchanges.empty());
  for (const int32_t t : {2, 4}) {
    for (const bool sequence : {false, true}) {
      const Graph part = whole.slice({{}, t, sequence});
      const auto own = part.lower(2, Precision::bf16);
      const Lowered& l = lowered(part, own, "cross-entropy1");
      ASSERT_EQ(l.forward.size(), 2U);
      EXPECT_EQ((l.forward[0].flops + l.forward[1].flops).n * t, alone.forward[0].flops.n);
      EXPECT_EQ(l.backward_data[0].flops.n * t, alone.backward_data[0].flops.n);
      ASSERT_EQ(l.forward_exchanges.size(), 1U);
      EXPECT_EQ(l.forward_exchanges[0].kind, Exchange::Kind::gather);
      EXPECT_EQ(l.forward_exchanges[0].elements * 2, int64_t{2} * 32 * t * 3 * 4);  // bytes
    }
  }
}

TEST(Slice, RefusesWhatDoesNotDivide) {
  expect_refusal("gpt2-xl", 2, false, "25 heads do not divide over 2 devices");
  expect_refusal("llama3-8b", 16, false, "8 key-value heads do not divide over 16 devices");
  expect_refusal("vgg16", 2, false, "no layer says how it splits over 2 devices");
  expect_refusal("gpt2:sequence=30", 4, true, "30 positions do not divide over 4 devices");
}

TEST(Slice, OfLinearLayersNamesWhatNeedsAllTheirFeatures) {
  ModelSlice slice;
  slice.ways = 2;
  slice.samples = true;
  try {
    Graph::load(kSmall).slice(slice);
    FAIL() << "attention cannot have a part of the features";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("tensor-parallel divides such models"), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("type attention"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem::models

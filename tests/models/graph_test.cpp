// SPDX-License-Identifier: Apache-2.0
#include "models/graph.h"
#include "models/dot.h"

#include <chrono>
#include <map>

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Graph, ForwardReferencesAreSortedAndTheRestKeepsItsOrder) {
  const Graph g = image_graph(R"(
    {"type": "add", "name": "sum", "from": ["a", "b"]},
    {"type": "relu", "name": "b", "from": "image"}, {"type": "tanh", "name": "a", "from": "image"},
    {"type": "relu", "name": "end", "from": "sum"})");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < g.layers().size(); ++i) {
    names.push_back(g.layers()[i].name);
    for (const uint32_t from : g.layers()[i].inputs) EXPECT_LT(from, i);
  }
  EXPECT_THAT(names, ElementsAre("image", "a", "b", "sum", "end"));
}

TEST(Graph, SeveralLossesMayEndAModel) {
  const Graph g = image_graph(
      R"({"type": "flatten"}, {"type": "linear", "name": "a", "features": 10}, {"type": "cross-entropy"},
                                 {"type": "linear", "name": "b", "from": "flatten1", "features": 10}, {"type": "cross-entropy"})");
  EXPECT_EQ(g.parameter_elements(), 2 * (192 * 10 + 10));
}

TEST(Graph, FirstLayerHasNoDataGradient) {
  const Graph g =
      image_graph(R"({"type": "relu"}, {"type": "conv", "filters": 4, "kernel": 1}, {"type": "relu"},
                                 {"type": "conv", "filters": 4, "kernel": 1})");
  const auto l = g.lower(2, Precision::fp32);
  EXPECT_TRUE(l[1].backward_data.empty());
  EXPECT_TRUE(l[2].backward_data.empty());
  EXPECT_FALSE(l[2].backward_weights.empty());
  EXPECT_EQ(l[3].backward_data.size(), 1U);
  EXPECT_EQ(l[4].backward_data.size(), 1U);
}

TEST(Graph, GradientsOfAnOutputReadTwiceAreSummed) {
  const Graph g = image_graph(R"({"type": "conv", "filters": 4, "kernel": 1}, {"type": "relu"},
    {"type": "conv", "filters": 4, "kernel": 1}, {"type": "add", "from": ["conv2", "relu1"]})");
  const auto l = g.lower(2, Precision::fp16);
  ASSERT_EQ(l[2].backward_data.size(), 2U);  // relu1: the sum, then its own
  const Kernel& sum = l[2].backward_data[0];
  EXPECT_EQ(sum.shape, (std::vector<int64_t>{2 * 4 * 64, 2}));
  EXPECT_EQ(sum.repeat, 1);
  EXPECT_EQ(l[1].backward_data.size(), 0U);
  EXPECT_EQ(l[3].backward_data.size(), 1U);
}

TEST(Graph, PartsOfASplitShareOneGradient) {
  const Graph g = image_graph(R"({"type": "conv", "filters": 4, "kernel": 1}, {"type": "relu"},
    {"type": "split", "name": "a", "parts": 2, "index": 0}, {"type": "split", "name": "b", "from": "relu1", "parts": 2, "index": 1},
    {"type": "add", "from": ["a", "b"]})");
  EXPECT_EQ(g.lower(2, Precision::fp16)[2].backward_data.size(), 1U);
}

TEST(Graph, ANewLayerTypeIsOneEntryInARegistry) {
  Registry<LayerType> types("layers");
  types.add({"square", "x times x", [](const LayerInput& in) {
               Lowered out;
               out.output = in.only();
               const int64_t count = in.total(out.output) * in.attributes.integer("times", 1);
               out.forward = {elementwise(Pass::forward, count, 1, in.element_size())};
               out.backward_data = {elementwise(Pass::backward_data, count, 2, in.element_size(), 2)};
               out.keeps_input = true;
               return out;
             }});
  const Json json = Json::parse(
      R"({"name": "x", "inputs": {"a": [5]}, "layers": [{"type": "square", "times": "=1+1"}]})", "t.json");
  const Graph g = Graph::from_json(json, types);
  EXPECT_EQ(g.layers()[1].type->name, "square");
  EXPECT_EQ(g.lower(3, Precision::fp32)[1].forward[0].flops.n, 30);
  const Json bad = Json::parse(
      R"({"name": "x", "inputs": {"a": [5]}, "layers": [{"type": "square", "tmes": 2}]})", "t.json");
  EXPECT_THAT(error_of([&] { Graph::from_json(bad, types); }), HasSubstr("Did you mean times"));
}

TEST(Graph, BatchMustBePositiveAndFit) {
  const Graph g = Graph::load("vgg16");
  EXPECT_THAT(error_of([&] { g.lower(0, Precision::fp32); }), HasSubstr("batch of 0"));
  EXPECT_THAT(error_of([&] { g.lower(-5, Precision::fp32); }), HasSubstr("batch of -5"));
  EXPECT_THAT(error_of([&] { g.lower(INT64_MAX / 2, Precision::fp32); }), HasSubstr("too large"));
}

TEST(Graph, MissingFileIsAnInputError) {
  EXPECT_THAT(error_of([] { Graph::load("nowhere/model.json"); }), HasSubstr("nowhere/model.json"));
  EXPECT_THAT(error_of([] { Graph::load(""); }), HasSubstr("name is missing"));
}

TEST(Graph, LargestModelsStayFast) {
  // Generous against a loaded machine; typical figures are a tenth.
  for (const char* name : {"resnet50", "gpt3-175b"}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto lowered = Graph::load(name).lower(8, Precision::fp16);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 0.5) << name;
    EXPECT_GT(lowered.size(), 100U);
  }
}

TEST(Dot, ShowsEveryLayerOfASmallModel) {
  const Graph g = Graph::load("vgg16");
  const std::string dot = model_dot(g);
  EXPECT_TRUE(dot.starts_with("digraph"));
  for (const Layer& l : g.layers()) EXPECT_THAT(dot, HasSubstr("\"" + l.name + "\\n"));
  EXPECT_THAT(dot, HasSubstr("64x224x224"));
  EXPECT_THAT(dot, HasSubstr("138 M parameters"));
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

TEST(Dot, FoldsEqualBlocksOfALargeModel) {
  const std::string dot = model_dot(Graph::load("gpt3-175b"));
  EXPECT_THAT(dot, HasSubstr("(x 96)"));
  EXPECT_LT(std::count(dot.begin(), dot.end(), '\n'), 60);
}

TEST(Dot, FoldsNoMoreThanReadersNeed) {
  const std::string dot = model_dot(Graph::load("resnet50"));
  EXPECT_THAT(dot, HasSubstr("stage1.first"));
  EXPECT_THAT(dot, HasSubstr("stage3.rest.0 .. stage3.rest.4 (x 5)"));
  EXPECT_THAT(dot, testing::Not(HasSubstr("residual")));
}

}  // namespace
}  // namespace tandem::tests

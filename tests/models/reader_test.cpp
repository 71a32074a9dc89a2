// SPDX-License-Identifier: Apache-2.0
#include "models/reader.h"

#include <fmt/format.h>

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const Graph& g) {
  std::vector<std::string> out;
  for (const Layer& l : g.layers()) out.push_back(l.name);
  return out;
}

const Layer& layer(const Graph& g, std::string_view name) {
  for (const Layer& l : g.layers()) {
    if (l.name == name) return l;
  }
  throw std::logic_error("no such layer in the test");
}

TEST(Reader, DefaultNamesCountTheKindWithinItsList) {
  const Graph g = image_graph(R"(
    {"type": "relu"}, {"type": "tanh", "name": "mine"}, {"type": "relu"},
    {"layers": [{"type": "relu"}]}, {"name": "r", "repeat": 2, "layers": [{"type": "relu"}, {"type": "tanh"}]})");
  EXPECT_THAT(names(g), ElementsAre("image", "relu1", "mine", "relu2", "group1.relu1", "r.0.relu1",
                                    "r.0.tanh1", "r.1.relu1", "r.1.tanh1"));
  for (std::size_t i = 1; i < g.layers().size(); ++i) EXPECT_THAT(g.layers()[i].inputs, ElementsAre(i - 1));
}

TEST(Reader, BlocksSeeTheirParametersAndTheModels) {
  const Graph g = image_graph(
      R"({"block": "unit", "repeat": 3, "width": "=base+base*index"}, {"block": "unit", "name": "last"})",
      R"("parameters": {"base": 4, "half": "=base/2"},
         "blocks": {"unit": {"parameters": {"width": "=base*10", "kernel": 1},
                             "layers": [{"type": "conv", "filters": "=width+half", "kernel": "=kernel"}]}},)");
  EXPECT_EQ(layer(g, "unit1.0.conv1").output, (Shape{6, 8, 8}));
  EXPECT_EQ(layer(g, "unit1.2.conv1").output, (Shape{14, 8, 8}));
  EXPECT_EQ(layer(g, "last.conv1").output, (Shape{42, 8, 8}));
}

TEST(Reader, BlocksTakeSeveralInputsAndNameTheirOutput) {
  const Graph g = image_graph(
      R"({"type": "relu"}, {"type": "tanh", "from": "image"},
         {"block": "pair", "name": "p", "repeat": 2, "from": ["relu1", "tanh1"]})",
      R"("blocks": {"pair": {"output": "sum", "layers": [
           {"type": "add", "name": "sum", "from": ["in", "in2"]},
           {"type": "mse", "from": "in2"}]}},)");
  const auto index = [&](std::string_view name) {
    return static_cast<uint32_t>(&layer(g, name) - g.layers().data());
  };
  EXPECT_THAT(layer(g, "p.0.sum").inputs, ElementsAre(index("relu1"), index("tanh1")));
  EXPECT_THAT(layer(g, "p.1.sum").inputs, ElementsAre(index("p.0.sum"), index("tanh1")));
}

TEST(Reader, RepeatOfZeroPassesItsInputOn) {
  const Graph g =
      image_graph(R"({"type": "relu"}, {"repeat": "=n-1", "layers": [{"type": "tanh"}]}, {"type": "relu"})",
                  R"("parameters": {"n": 1},)");
  EXPECT_THAT(names(g), ElementsAre("image", "relu1", "relu2"));
  EXPECT_THAT(g.layers()[2].inputs, ElementsAre(1));
}

TEST(Reader, RecurrentLayersMayHaveAnAttributeNamedLayers) {
  const Graph g = graph_of(
      R"({"name": "x", "inputs": {"a": [5, 8]}, "layers": [{"type": "lstm", "hidden": 4, "layers": 2}]})");
  EXPECT_EQ(g.parameter_elements(), 16 * (8 + 4 + 2) + 16 * (4 + 4 + 2));
}

TEST(Reader, ReadsSampleAndPublishedFigures) {
  const Graph g =
      image_graph(R"({"type": "relu"})",
                  R"("sample": {"unit": "images", "stored": "110KB", "decoded": "=size*4", "decode": "7ms"},
                                 "parameters": {"size": 192}, "summary": "a test",
                                 "published": {"parameters": 0, "forward": "1.5GFLOP", "tolerance": 0.1, "source": "s"},)");
  EXPECT_EQ(g.sample().unit, "images");
  EXPECT_EQ(g.sample().stored.n, 110000);
  EXPECT_EQ(g.sample().decoded.n, 768);
  EXPECT_DOUBLE_EQ(g.sample().decode_seconds, 0.007);
  ASSERT_TRUE(g.published().has_value());
  EXPECT_EQ(g.published()->forward.n, 1500000000);
  EXPECT_EQ(g.summary(), "a test");
}

TEST(Reader, OverridesReplaceParameters) {
  EXPECT_EQ(Graph::load("resnet50:classes=10").parameter_elements(), 25557032 - 990 * 2049);
  EXPECT_EQ(Graph::load("resnet50:stage3=23").parameter_elements(),
            Graph::load("resnet101").parameter_elements());
  const Place place{std::make_shared<const std::string>("command line"), 0, 0};
  EXPECT_THAT(error_of([&] { Graph::load("resnet50:clases=10", place); }),
              AllOf(HasSubstr("command line"), HasSubstr("no parameter \"clases\". Did you mean classes"),
                    HasSubstr("Valid: ")));
  EXPECT_THAT(error_of([&] { Graph::load("resnet50:classes=ten", place); }),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of([&] { Graph::load("resnet50:classes=0", place); }), HasSubstr("\"features\" is 0"));
  EXPECT_THAT(error_of([&] { Graph::load("resnet50:classes", place); }), HasSubstr("is not key=value"));
  EXPECT_THAT(error_of([&] { Graph::load("resnet5", place); }), HasSubstr("Did you mean resnet"));
}

TEST(Reader, FamiliesAreExtendedButNotRewritten) {
  EXPECT_THAT(error_of([] { graph_of(R"({"name": "x", "extends": "resnet-bottlenek"})"); }),
              HasSubstr("Did you mean resnet-bottleneck"));
  EXPECT_THAT(error_of([] { graph_of(R"({"name": "x", "extends": "vgg", "layers": []})"); }),
              HasSubstr("unknown key \"layers\""));
  EXPECT_THAT(error_of([] { graph_of(R"({"name": "x", "extends": "vgg", "parameters": {"stag1": 2}})"); }),
              HasSubstr("no parameter \"stag1\". Did you mean stage1"));
}

struct Bad {
  std::string name, layers, says, more;
  friend void PrintTo(const Bad& b, std::ostream* out) { *out << b.name; }
};
class BadModel : public testing::TestWithParam<Bad> {};
TEST_P(BadModel, IsRefusedWithPlaceAndReason) {
  const std::string message = error_of([] { image_graph(GetParam().layers, GetParam().more); });
  EXPECT_THAT(message, HasSubstr(GetParam().says));
  EXPECT_TRUE(message.starts_with("test.json:")) << message;
}

constexpr const char* kSelf =
    R"("blocks": {"a": {"layers": [{"block": "b"}]}, "b": {"layers": [{"block": "a"}]}},)";
constexpr const char* kUnit =
    R"("blocks": {"unit": {"parameters": {"width": 1}, "layers": [{"type": "relu"}]}},)";

INSTANTIATE_TEST_SUITE_P(
    All, BadModel,
    testing::Values(
        Bad{"type", R"({"type": "conx", "filters": 1})", "no layer \"conx\". Did you mean conv", ""},
        Bad{"attribute", R"({"type": "relu", "slop": 1})", "unknown attribute \"slop\"", ""},
        Bad{"missing", R"({"type": "conv", "kernel": 1})", "\"filters\" is missing", ""},
        Bad{"layer_named", R"({"type": "linear", "features": 1})", "(layer \"linear1\", type linear)", ""},
        Bad{"path_named", R"({"name": "g", "repeat": 2, "layers": [{"type": "linear", "features": 1}]})",
            "layer \"g.0.linear1\"", ""},
        Bad{"zero", R"({"type": "conv", "filters": 0, "kernel": 1})", "\"filters\" is 0", ""},
        Bad{"negative", R"({"type": "conv", "filters": 1, "kernel": -3})", "\"kernel\" is -3", ""},
        Bad{"huge", R"({"type": "conv", "filters": 9000000000, "kernel": 1})", "outside 1 .. 2147483647", ""},
        Bad{"real", R"({"type": "conv", "filters": 1.5, "kernel": 1})", "expected a whole number", ""},
        Bad{"dimension", R"({"type": "upsample", "factor": [2147483647, 1]})", "outside 1 .. 2147483648", ""},
        Bad{"unknown_from", R"({"type": "relu"}, {"type": "relu", "from": "rel1"})",
            "nothing here is named \"rel1\". Did you mean relu1", ""},
        Bad{"from_other_list",
            R"({"name": "g", "layers": [{"type": "relu"}]}, {"type": "relu", "from": "g.relu1"})",
            "nothing here is named", ""},
        Bad{"empty_from", R"({"type": "relu", "from": []})", "at least one layer", ""},
        Bad{"itself", R"({"type": "relu", "from": "relu1"})", "a cycle", ""},
        Bad{"cycle",
            R"({"type": "relu", "name": "a", "from": "b"}, {"type": "relu", "name": "b", "from": "a"})",
            "a cycle", ""},
        Bad{"empty_cycle", R"({"repeat": 0, "name": "a", "from": "b", "layers": [{"type": "relu"}]},
                 {"repeat": 0, "name": "b", "from": "a", "layers": [{"type": "relu"}]}, {"type": "relu"})",
            "feeds itself", ""},
        Bad{"dead", R"({"type": "relu"}, {"type": "tanh"}, {"type": "relu", "from": "relu1"})",
            "nothing reads the output of layer \"tanh1\"", ""},
        Bad{"twice", R"({"type": "relu", "name": "a"}, {"type": "relu", "name": "a"})", "\"a\" stands twice",
            ""},
        Bad{"input_name", R"({"type": "relu", "name": "image"})", "\"image\" stands twice", ""},
        Bad{"dotted", R"({"type": "relu", "name": "a.b"})", "not a valid name", ""},
        Bad{"nothing", "", "at least one layer", ""},
        Bad{"no_kind", R"({"name": "x"})", "exactly one of \"type\"", ""},
        Bad{"kernels",
            R"({"type": "reshape", "shape": [3, 64]}, {"repeat": 20000, "layers": [{"type": "lstm", "hidden": 1, "layers": 100}]})",
            "more than 2000000 kernels", ""},
        Bad{"two_kinds", R"({"type": "relu", "block": "x"})", "exactly one of \"type\"", ""},
        Bad{"repeat_layer", R"({"type": "relu", "repeat": 2})", "unknown attribute \"repeat\"", ""},
        Bad{"repeat_negative", R"({"repeat": -1, "layers": [{"type": "relu"}]})", "\"repeat\" is -1", ""},
        Bad{"repeat_huge", R"({"repeat": 1000000, "layers": [{"type": "relu"}]})", "outside 0 .. 100000", ""},
        Bad{"layers", R"({"repeat": 100000, "layers": [{"type": "relu"}, {"type": "relu"}]})",
            "more than 100000 layers", ""},
        Bad{"nothing_often",
            R"({"repeat": 100000, "layers": [{"repeat": 100000, "layers": [{"repeat": 0, "layers": [{"type": "relu"}]}]}]})",
            "more than 1000000", ""},
        Bad{"unknown_block", R"({"block": "unitt"})", "no block \"unitt\". Did you mean unit", kUnit},
        Bad{"unknown_parameter", R"({"block": "unit", "widthh": 2})",
            "unknown key \"widthh\". Did you mean width", kUnit},
        Bad{"recursion", R"({"block": "a"})", "contains itself", kSelf},
        Bad{"expression", R"({"type": "conv", "filters": "=n*2", "kernel": 1})", "unknown name \"n\"", ""},
        Bad{"inexact", R"({"type": "conv", "filters": "=n/2", "kernel": 1})", "does not divide evenly",
            R"("parameters": {"n": 3},)"},
        Bad{"parameter_name", R"({"type": "relu"})", "cannot name a parameter",
            R"("parameters": {"a-b": 3},)"},
        Bad{"index_name", R"({"type": "relu"})", "cannot name a parameter", R"("parameters": {"index": 3},)"},
        Bad{"parameter_text", R"({"type": "relu"})", "expected a whole number",
            R"("parameters": {"n": "3"},)"},
        Bad{"key", R"({"type": "relu"})", "unknown key \"sampel\". Did you mean sample", R"("sampel": {},)"},
        Bad{"unit", R"({"type": "relu"})", "110", R"("sample": {"stored": "110"},)"}),
    [](const auto& info) { return info.param.name; });

TEST(BadModel, InputsMustBeReadAndHaveSizes) {
  const auto model = [](const std::string& inputs) {
    return error_of(
        [&] { graph_of(R"({"name": "x", "inputs": )" + inputs + R"(, "layers": [{"type": "relu"}]})"); });
  };
  EXPECT_THAT(model(R"({"a": [3], "b": [3]})"), HasSubstr("nothing reads the input \"b\""));
  EXPECT_THAT(model(R"({"a": [0]})"), HasSubstr("dimension 0 is outside 1"));
  EXPECT_THAT(model(R"({"a": []})"), HasSubstr("1 to 8 dimensions"));
  EXPECT_THAT(model("{}"), HasSubstr("at least one input"));
  EXPECT_THAT(model(R"({"a": [2147483648, 2147483648, 2147483648]})"), HasSubstr("too large"));
}

TEST(BadModel, DeepNestingEnds) {
  std::string open, close;
  for (int i = 0; i < 25; ++i) open += R"({"layers": [)", close += "]}";
  EXPECT_NO_THROW(image_graph(open + R"({"type": "relu"})" + close));
  std::string blocks = R"("blocks": {)";
  for (int i = 0; i < 40; ++i)
    blocks += fmt::format(R"("b{}": {{"layers": [{{"block": "b{}"}}]}}, )", i, i + 1);
  blocks += R"("b40": {"layers": [{"type": "relu"}]}},)";
  EXPECT_THAT(error_of([&] { image_graph(R"({"block": "b0"})", blocks); }),
              HasSubstr("nested deeper than 32"));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Graphs of ONNX, built here by protobuf's classes, as models: counts by hand, and what is refused.
#ifdef TANDEM_HAS_PROTOBUF
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <models/import/onnx/onnx.pb.h>
#include "base/error.h"
#include "base/json.h"
#include "models/graph.h"
#include "models/import/onnx/onnx.h"

namespace tandem::tests {
namespace {

using models::Graph;
using models::OnnxChoices;
using testing::HasSubstr;
namespace pb = models::onnx;
using Dims = std::vector<int64_t>;
using Texts = std::vector<std::string>;

constexpr int kFloat = 1, kInt64 = 7;

/// A file in the making.
struct Net {
  pb::ModelProto model;
  pb::GraphProto* graph = model.mutable_graph();

  explicit Net(int64_t opset = 20) {
    model.set_ir_version(10);
    model.set_producer_name("test");
    model.add_opset_import()->set_version(opset);
  }
  /// A dimension of 0 has the name "batch", one below 0 the name "n".
  static void set(pb::ValueInfoProto* value, const std::string& name, int type, const Dims& dims) {
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const int64_t d : dims) {
      auto* dimension = tensor->mutable_shape()->add_dim();
      if (d > 0) dimension->set_dim_value(d);
      if (d <= 0) dimension->set_dim_param(d == 0 ? "batch" : "n");
    }
  }
  void input(const std::string& name, const Dims& dims, int type = kFloat) {
    set(graph->add_input(), name, type, dims);
  }
  void output(const std::string& name) { set(graph->add_output(), name, kFloat, {}); }
  /// Its numbers are in another file, which is not there.
  void weight(const std::string& name, const Dims& dims, int type = kFloat) {
    pb::TensorProto* tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const int64_t d : dims) tensor->add_dims(d);
    tensor->set_data_location(1);
  }
  void numbers(const std::string& name, const Dims& values) {
    pb::TensorProto* tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(kInt64);
    tensor->add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t v : values) tensor->add_int64_data(v);
  }
  void number(const std::string& name, float value) {
    pb::TensorProto* tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(kFloat);
    tensor->add_float_data(value);
  }
  pb::NodeProto& node(const std::string& op, const Texts& in, const Texts& out) {
    pb::NodeProto* node = graph->add_node();
    node->set_op_type(op);
    node->set_name("the " + op);
    for (const std::string& name : in) node->add_input(name);
    for (const std::string& name : out) node->add_output(name);
    return *node;
  }
  Graph read(const OnnxChoices& choices = {}) const {
    const std::string text = models::model_of_onnx(model.SerializeAsString(), "net.onnx", choices).document;
    return Graph::from_json(Json::parse(text, "model"));
  }
  std::string refusal(const OnnxChoices& choices = {}) const {
    try {
      read(choices);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  Texts types(const OnnxChoices& choices = {}) const {
    const std::string text = models::model_of_onnx(model.SerializeAsString(), "net.onnx", choices).document;
    const Json document = Json::parse(text, "model");
    Texts out;
    for (const Json& layer : document.at("layers").items()) out.push_back(layer.at("type").as_text());
    return out;
  }
};

void set(pb::NodeProto& node, const std::string& name, const Dims& values) {
  pb::AttributeProto* a = node.add_attribute();
  a->set_name(name);
  for (const int64_t v : values) a->add_ints(v);
}
void set(pb::NodeProto& node, const std::string& name, int64_t value) {
  pb::AttributeProto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(2);
  a->set_i(value);
}

/// A convolution with a norm, pooled, and ten classes.
Net images() {
  Net net;
  net.input("x", {0, 3, 8, 8});
  net.weight("w", {16, 3, 3, 3});
  for (const char* name : {"scale", "shift", "mean", "variance"}) net.weight(name, {16});
  net.weight("out", {10, 16});
  net.weight("bias", {10});
  set(net.node("Conv", {"x", "w"}, {"c"}), "pads", Dims{1, 1, 1, 1});
  net.node("BatchNormalization", {"c", "scale", "shift", "mean", "variance"}, {"b"});
  net.node("Relu", {"b"}, {"r"});
  net.node("GlobalAveragePool", {"r"}, {"p"});
  net.node("Flatten", {"p"}, {"f"});
  set(net.node("Gemm", {"f", "out", "bias"}, {"y"}), "transB", 1);
  net.output("y");
  return net;
}

TEST(OnnxImport, InitializersAreParametersAndStatisticsAreNot) {
  const Net net = images();
  const Graph graph = net.read();
  EXPECT_EQ(graph.parameter_elements(), 16 * 27 + 2 * 16 + 10 * 16 + 10);
  EXPECT_EQ(graph.forward_flops().n, 2 * (64 * 16 * 27 + 10 * 16));
  EXPECT_THAT(net.types(), testing::ElementsAre("conv", "batch-norm", "relu", "global-pool", "linear"));
  EXPECT_EQ(graph.sample().stored.n, 0) << "how pictures are stored is not known";
  EXPECT_GT(graph.sample().decoded.n, 0);
  OnnxChoices loss;
  loss.loss = "cross-entropy";
  EXPECT_EQ(net.types(loss).back(), "cross-entropy");
  EXPECT_EQ(net.read(loss).parameter_elements(), graph.parameter_elements());
}

TEST(OnnxImport, ATableThatIsAlsoTheOutputLayerIsOneParameter) {
  Net net;
  net.input("ids", {1, 12}, kInt64);
  net.weight("table", {100, 16});
  net.weight("places", {12, 16});
  net.node("Gather", {"table", "ids"}, {"e"});
  net.node("Add", {"e", "places"}, {"x"});
  set(net.node("Transpose", {"table"}, {"turned"}), "perm", Dims{1, 0});
  net.node("MatMul", {"x", "turned"}, {"y"});
  net.output("y");
  const Graph graph = net.read();
  EXPECT_EQ(graph.parameter_elements(), 100 * 16 + 12 * 16);
  EXPECT_EQ(graph.sample().stored.n, 12 * 8);
  EXPECT_EQ(graph.forward_flops().n, 2 * 12 * 16 * 100);
  EXPECT_THAT(net.types(), testing::ElementsAre("embedding", "position-embedding", "tied-linear"));
}

TEST(OnnxImport, ShapesAreFollowedThroughTheOperatorsThatComputeThem) {
  Net net;
  net.input("x", {0, -1, 16});
  net.weight("w", {16, 24});
  net.weight("b", {24});
  net.node("MatMul", {"x", "w"}, {"p"});
  net.node("Add", {"b", "p"}, {"q"});
  net.node("Shape", {"q"}, {"s"});
  net.numbers("one", {1});
  net.numbers("rest", {4, 6});
  net.node("Gather", {"s", "one"}, {"n"});
  net.numbers("open", {-1});
  net.node("Concat", {"open", "n", "rest"}, {"shape"}).add_attribute()->set_name("axis");
  net.node("Reshape", {"q", "shape"}, {"heads"});
  set(net.node("Transpose", {"heads"}, {"k"}), "perm", Dims{0, 2, 1, 3});
  set(net.node("Transpose", {"heads"}, {"kt"}), "perm", Dims{0, 2, 3, 1});
  net.node("MatMul", {"k", "kt"}, {"scores"});
  net.weight("mask", {10, 10});
  net.number("factor", 0.5F);
  net.node("Mul", {"scores", "factor"}, {"scaled"});
  net.node("Add", {"scaled", "mask"}, {"masked"});
  net.node("Softmax", {"masked"}, {"weights"});
  net.node("MatMul", {"weights", "k"}, {"y"});
  net.output("y");
  EXPECT_THAT(net.refusal(), HasSubstr("\"n\" of no fixed size: give it as --dim n=N"));
  OnnxChoices ten;
  ten.sizes = {{"n", 10}};
  const Graph graph = net.read(ten);
  EXPECT_EQ(graph.parameter_elements(), 16 * 24 + 24);
  EXPECT_EQ(graph.forward_flops().n, 2 * 10 * 16 * 24 + 2 * 2 * 4 * 10 * 10 * 6);
  OnnxChoices wrong;
  wrong.sizes = {{"m", 10}};
  EXPECT_THAT(net.refusal(wrong), HasSubstr("Did you mean m?"));
}

TEST(OnnxImport, NormsAndActivationsInPiecesAreKnownAgain) {
  Net net;
  net.input("x", {1, 4, 16});
  net.number("two", 2);
  net.number("small", 1e-5F);
  net.number("root", 1.41421356F);
  net.number("half", 0.5F);
  net.number("one", 1);
  net.weight("scale", {16});
  net.weight("shift", {16});
  set(net.node("ReduceMean", {"x"}, {"m"}), "axes", Dims{-1});
  net.node("Sub", {"x", "m"}, {"d"});
  net.node("Pow", {"d", "two"}, {"s"});
  set(net.node("ReduceMean", {"s"}, {"v"}), "axes", Dims{-1});
  net.node("Add", {"v", "small"}, {"e"});
  net.node("Sqrt", {"e"}, {"r"});
  net.node("Div", {"d", "r"}, {"n"});
  net.node("Mul", {"n", "scale"}, {"ns"});
  net.node("Add", {"ns", "shift"}, {"g"});
  net.node("Div", {"g", "root"}, {"gr"});
  net.node("Erf", {"gr"}, {"ge"});
  net.node("Add", {"ge", "one"}, {"g1"});
  net.node("Mul", {"g", "g1"}, {"gg"});
  net.node("Mul", {"gg", "half"}, {"h"});
  net.node("Sigmoid", {"h"}, {"hs"});
  net.node("Mul", {"h", "hs"}, {"y"});
  net.output("y");
  EXPECT_THAT(net.types(), testing::ElementsAre("layer-norm", "gelu", "swish"));
  EXPECT_EQ(net.read().parameter_elements(), 32);
}

TEST(OnnxImport, RecurrentLayersOwnTheirThreeTensors) {
  Net net;
  net.input("x", {1, 7, 5});
  for (const char* name : {"w", "r"}) net.weight(name, {2, 12, name[0] == 'w' ? 5 : 3});
  net.weight("b", {2, 24});
  set(net.node("Transpose", {"x"}, {"t"}), "perm", Dims{1, 0, 2});
  set(net.node("LSTM", {"t", "w", "r", "b"}, {"y"}), "hidden_size", 3);
  net.output("y");
  EXPECT_EQ(net.read().parameter_elements(), 2 * (12 * 5 + 12 * 3 + 24));
  EXPECT_THAT(net.types(), testing::Contains("lstm"));
}

TEST(OnnxImport, FunctionsOfTheFileAreRunInPlace) {
  Net net;
  net.input("x", {1, 4, 16});
  net.weight("w", {16, 16});
  pb::FunctionProto* function = net.model.add_functions();
  function->set_domain("mine");
  function->set_name("Dense");
  function->add_input("a");
  function->add_input("b");
  function->add_output("c");
  pb::NodeProto* inside = function->add_node();
  inside->set_op_type("MatMul");
  inside->add_input("a");
  inside->add_input("b");
  inside->add_output("c");
  net.node("Dense", {"x", "w"}, {"h"}).set_domain("mine");
  net.node("Dense", {"h", "w"}, {"y"}).set_domain("mine");
  net.output("y");
  EXPECT_EQ(net.read().parameter_elements(), 256);  // both have the same
  EXPECT_EQ(net.read().forward_flops().n, 2 * 2 * 4 * 16 * 16);
  inside->set_domain("mine");  // calls itself
  inside->set_op_type("Dense");
  EXPECT_THAT(net.refusal(), HasSubstr("deeper than 16 levels"));
}

TEST(OnnxImport, WhatIsNotUnderstoodIsRefusedByNodeAndOperator) {
  Net net = images();
  net.node("Convv", {"y"}, {"z"});
  EXPECT_THAT(net.refusal(),
              HasSubstr("net.onnx: the node \"the Convv\" (Convv) has no layer in Tandem; the nearest "
                        "operator that has one is Conv"));
  net.graph->mutable_node(6)->set_domain("com.example");
  EXPECT_THAT(net.refusal(), HasSubstr("(com.example.Convv) is not of ONNX itself"));
  Net batch = images();
  Net::set(batch.graph->mutable_input(0), "x", kFloat, {4, 3, 8, 8});
  batch.graph->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim()
      ->DeleteSubrange(0, 4);
  EXPECT_THAT(batch.refusal(), HasSubstr("its first dimension has to be a batch of 1"));
  Net early = images();
  early.graph->mutable_node(0)->set_input(0, "r");
  EXPECT_THAT(early.refusal(), HasSubstr("reads \"r\", which nothing before it makes"));
  EXPECT_THROW(models::model_of_onnx("\x08\x0a\x12\xff", "net.onnx", {}), InputError);
  EXPECT_THROW(models::model_of_onnx("", "net.onnx", {}), InputError);
}

TEST(OnnxImport, SizesWithoutMeasureAreOneMessage) {
  for (const Dims& dims :
       {Dims{int64_t{1} << 40, 3, 3, 3}, Dims{INT64_MAX, INT64_MAX, 3, 3}, Dims{-5, 3, 3, 3}}) {
    Net net = images();
    net.graph->mutable_initializer(0)->clear_dims();
    for (const int64_t d : dims) net.graph->mutable_initializer(0)->add_dims(d);
    EXPECT_THAT(net.refusal(), testing::StartsWith("net.onnx: "));
  }
  Net wide;
  wide.input("x", {1, 1 << 30, 1 << 30, 1 << 30});
  wide.node("Relu", {"x"}, {"y"});
  wide.output("y");
  EXPECT_THAT(wide.refusal(), testing::StartsWith("net.onnx: "));
  Net range;
  range.input("x", {1, 4});
  range.numbers("shape", {1 << 30, 1 << 30, 1 << 30});
  range.node("Expand", {"x", "shape"}, {"y"});
  range.output("y");
  EXPECT_THAT(range.refusal(), testing::StartsWith("net.onnx: "));
}

TEST(OnnxImport, ManyConvolutionsWithBiasesAndNoNormAreRemarkedOn) {
  Net net;
  net.input("x0", {1, 4, 8, 8});
  for (int i = 0; i < 8; ++i) {
    net.weight(fmt::format("w{}", i), {4, 4, 1, 1});
    net.weight(fmt::format("b{}", i), {4});
    net.node("Conv", {fmt::format("x{}", i), fmt::format("w{}", i), fmt::format("b{}", i)},
             {fmt::format("x{}", i + 1)});
  }
  net.output("x8");
  const auto read = models::model_of_onnx(net.model.SerializeAsString(), "net.onnx", {});
  ASSERT_EQ(read.notes.size(), 1);
  EXPECT_THAT(read.notes[0], HasSubstr("folded norms"));
}

}  // namespace
}  // namespace tandem::tests
#endif

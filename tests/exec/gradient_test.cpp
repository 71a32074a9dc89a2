// Every layer type on the CPU: the backward pass is held against differences of the forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "base/random.h"
#include "exec/backend.h"
#include "tests/exec/play.h"

namespace tandem {
namespace {

struct Case {
  std::string type;  ///< that it is about
  std::string inputs, layers;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.layers; }

// An "a" input is turned into something that learns by a layer in front, so that data gradients exist.
const std::string kImage = R"({"image": [4, 6, 6]})", kRow = R"({"row": [12]})",
                  kSequence = R"({"s": [5, 8]})";
const std::string kFront = R"({"type":"conv","filters":4,"kernel":1,"name":"front"},)";
const std::string kFrontRow = R"({"type":"linear","features":12,"name":"front"},)";
const std::string kFrontSequence = R"({"type":"linear","features":8,"name":"front"},)";

std::vector<Case> cases() {
  std::vector<Case> out{
      {"conv", kImage, R"({"type":"conv","filters":6,"kernel":3,"pad":1,"stride":2})"},
      {"conv", kImage, R"({"type":"conv","filters":8,"kernel":[3,2],"groups":2,"dilation":2,"bias":false})"},
      {"conv", R"({"clip": [4, 3, 5, 4]})", R"({"type":"conv","filters":4,"kernel":3,"pad":1})"},
      {"conv", R"({"signal": [4, 12]})", R"({"type":"conv","filters":3,"kernel":3,"pad":"same"})"},
      {"conv", kImage, R"({"type":"conv","filters":5,"kernel":3,"stride":2,"pad":"same"})"},
      {"depthwise-conv", kImage, R"({"type":"depthwise-conv","kernel":3,"pad":1,"multiplier":2})"},
      {"conv-transpose", kImage, R"({"type":"conv-transpose","filters":3,"kernel":4,"stride":2,"pad":1})"},
      {"conv-transpose", kImage,
       R"({"type":"conv-transpose","filters":4,"kernel":3,"stride":2,"pad":1,"output_pad":1,"groups":2})"},
      {"max-pool", kImage, R"({"type":"max-pool","kernel":3,"stride":2,"ceil":true})"},
      {"max-pool", R"({"signal": [4, 12]})", R"({"type":"max-pool","kernel":2})"},
      {"max-pool", kImage, R"({"type":"max-pool","kernel":3,"stride":1,"pad":1})"},
      {"max-pool", R"({"clip": [4, 3, 5, 4]})", R"({"type":"max-pool","kernel":2,"stride":1})"},
      {"avg-pool", R"({"clip": [4, 3, 5, 4]})", R"({"type":"avg-pool","kernel":2,"ceil":true})"},
      {"avg-pool", kImage, R"({"type":"avg-pool","kernel":3,"stride":2,"pad":1})"},
      {"global-pool", kImage, R"({"type":"global-pool"})"},
      {"adaptive-pool", kImage, R"({"type":"adaptive-pool","size":4})"},
      {"upsample", kImage, R"({"type":"upsample","factor":2})"},
      {"batch-norm", kImage, R"({"type":"batch-norm"})"},
      {"batch-norm", kImage, R"({"type":"batch-norm","affine":false})"},
      {"batch-norm", R"({"signal": [4, 12]})", R"({"type":"batch-norm"})"},
      {"batch-norm", kRow, R"({"type":"batch-norm"})"},
      {"batch-norm", R"({"clip": [4, 3, 5, 4]})", R"({"type":"batch-norm"})"},
      {"group-norm", kImage, R"({"type":"group-norm","groups":1})"},
      {"group-norm", kImage, R"({"type":"group-norm","groups":2})"},
      {"pixel-norm", kImage, R"({"type":"pixel-norm"})"},
      {"lrn", kImage, R"({"type":"lrn","window":3})"},
      {"lrn", kImage, R"({"type":"lrn","window":4})"},
      {"pad", kImage, R"({"type":"pad","amount":[1,2]})"},
      {"flatten", kImage, R"({"type":"flatten"},{"type":"linear","features":3})"},
      {"reshape", kImage, R"({"type":"reshape","shape":[4,36]},{"type":"linear","features":3})"},
      {"reshape", kImage, R"({"type":"reshape","shape":[9,4,4]},{"type":"conv","filters":2,"kernel":3})"},
      {"transpose", kImage, R"({"type":"transpose","order":[2,0,1]},{"type":"conv","filters":2,"kernel":3})"},
      {"concat", kImage,
       R"({"type":"conv","filters":3,"kernel":1,"name":"b"},{"type":"concat","from":["front","b"]})"},
      {"concat", kImage,
       R"({"type":"conv","filters":4,"kernel":1,"name":"b"},{"type":"concat","axis":2,"from":["front","b"]})"},
      {"add", kImage,
       R"({"type":"conv","filters":4,"kernel":1,"name":"b"},{"type":"add","from":["front","b","front"]})"},
      {"add", kImage,
       R"({"type":"global-pool","name":"g"},{"type":"linear","features":4,"name":"e"},{"type":"add","from":["front","e"]})"},
      {"add", kImage,
       R"({"type":"global-pool","name":"g"},{"type":"reshape","shape":[4,1,1],"name":"e"},{"type":"add","from":["front","e"]})"},
      {"add", kSequence, R"({"type":"mean","name":"m"},{"type":"add","from":["front","m","front"]})"},
      {"mul", kSequence, R"({"type":"mean","name":"m"},{"type":"mul","from":["front","m","front","m"]})"},
      {"mul", kSequence,
       R"({"type":"mean","name":"m"},{"type":"linear","features":1,"name":"one"},{"type":"mul","from":["front","one"]})"},
      {"mul", kImage,
       R"({"type":"global-pool","name":"g"},{"type":"linear","features":4,"name":"e"},{"type":"mul","from":["front","e"]})"},
      {"mul", kImage,
       R"({"type":"conv","filters":4,"kernel":1,"name":"b"},{"type":"mul","from":["front","b"]})"},
      {"mul", kImage,
       R"({"type":"conv","filters":4,"kernel":1,"name":"b"},{"type":"mul","from":["front","b","front"]})"},
      {"slice", kImage,
       R"({"type":"slice","begin":1,"end":3,"name":"p"},{"type":"slice","axis":2,"begin":2,"end":3,"from":"front","name":"q"},
          {"type":"global-pool","from":"p","name":"gp"},{"type":"global-pool","from":"q","name":"gq"},
          {"type":"concat","from":["gp","gq"]})"},
      {"split", kImage,
       R"({"type":"split","parts":2,"index":0,"name":"p"},{"type":"split","parts":2,"index":1,"from":"front","name":"q"},
          {"type":"mul","from":["p","q"]})"},
      {"slice", kSequence,
       R"({"type":"slice","axis":1,"begin":1,"end":6,"name":"p"},{"type":"slice","axis":1,"begin":3,"end":8,"from":"front","name":"q"},
          {"type":"mul","from":["p","q"],"name":"r"},{"type":"mean","name":"m"},{"type":"linear","features":8,"name":"n"},
          {"type":"add","from":["front","n"]})"},
      {"slice", kSequence, R"({"type":"slice","begin":0,"end":5},{"type":"tanh"})"},
      {"transpose", kSequence, R"({"type":"transpose","order":[1,0]},{"type":"linear","features":3})"},
      {"linear", kRow, R"({"type":"linear","features":7})"},
      {"linear", kSequence, R"({"type":"linear","features":7,"bias":false})"},
      {"layer-norm", kSequence, R"({"type":"layer-norm"})"},
      {"layer-norm", kSequence, R"({"type":"layer-norm","bias":false})"},
      {"rms-norm", kSequence, R"({"type":"rms-norm"})"},
      {"mean", kSequence, R"({"type":"mean"})"},
      {"mean", kSequence, R"({"type":"mean","axis":1})"},
      {"softmax", kSequence, R"({"type":"softmax"})"},
      {"cls-token", kSequence, R"({"type":"cls-token"})"},
      {"position-embedding", kSequence, R"({"type":"position-embedding","length":9})"},
      {"attention", R"({"s": [5, 24]})", R"({"type":"attention","heads":2})"},
      {"attention", R"({"s": [5, 32]})",
       R"({"type":"attention","heads":4,"kv_heads":2,"causal":true,"rotary":true})"},
      {"attention", kSequence,
       R"({"type":"linear","features":4,"name":"k"},{"type":"linear","features":4,"name":"v","from":"front"},
          {"type":"attention","heads":4,"kv_heads":2,"rotary":true,"from":["front","k","v"]})"},
      {"attention", kSequence,
       R"({"type":"slice","begin":1,"end":3,"name":"q"},{"type":"attention","heads":2,"from":["q","front","front"]})"},
      {"rnn", kSequence, R"({"type":"rnn","hidden":3,"bidirectional":true,"bias":false})"},
      {"gru", kSequence, R"({"type":"gru","hidden":3,"bias":false})"},
      {"rnn", kSequence, R"({"type":"rnn","hidden":6,"layers":2})"},
      {"lstm", kSequence, R"({"type":"lstm","hidden":5,"layers":2,"bidirectional":true})"},
      {"lstm", kSequence, R"({"type":"lstm","hidden":5,"bias":false})"},
      {"gru", kSequence, R"({"type":"gru","hidden":5,"layers":2,"bidirectional":true})"},
      {"embedding", R"({"tokens": [6]})", R"({"type":"embedding","vocabulary":11,"width":8})"},
      {"tied-linear", R"({"tokens": [6]})",
       R"({"type":"embedding","vocabulary":11,"width":8},{"type":"tanh"},{"type":"tied-linear","vocabulary":11})"},
      {"cross-entropy", kRow, R"({"type":"cross-entropy"})"},
      {"cross-entropy", kImage, R"({"type":"cross-entropy"})"},
      {"mse", kRow, R"({"type":"mse"})"},
      {"mse", kRow, R"({"type":"linear","features":12,"name":"b"},{"type":"mse","from":["front","b"]})"},
  };
  // In place behind a view; beside another reader of the same input; two in a row.
  out.push_back({"relu", kImage, R"({"type":"flatten"},{"type":"relu"},{"type":"linear","features":3})"});
  out.push_back(
      {"relu", kImage,
       R"({"type":"relu","name":"r"},{"type":"conv","filters":4,"kernel":1,"from":"front","name":"c"},
                    {"type":"add","from":["r","c"]})"});
  out.push_back(
      {"leaky-relu", kImage,
       R"({"type":"leaky-relu","slope":0.3},{"type":"dropout","p":0},{"type":"clip","low":-0.2,"high":2})"});
  for (const char* type :
       {"relu", "relu6", "leaky-relu", "clip", "sigmoid", "tanh", "gelu", "swish", "softplus", "dropout"})
    out.push_back({type, kImage, R"({"type":")" + std::string(type) + R"("})"});
  return out;
}

Graph graph_of(const Case& c) {
  std::string front;
  if (c.inputs == kRow) front = kFrontRow;
  if (c.inputs.find("\"s\"") != std::string::npos)
    front = c.inputs == kSequence ? kFrontSequence
                                  : R"({"type":"linear","features":)" +
                                        c.inputs.substr(c.inputs.find(", ") + 2, 2) + R"(,"name":"front"},)";
  if (c.inputs == kImage || c.inputs.find("clip") != std::string::npos ||
      c.inputs.find("signal") != std::string::npos)
    front = kFront;
  return Graph::from_json(Json::parse(
      R"({"name":"t","summary":"t","source":"test","sample":{"unit":"samples","stored":"1B","decoded":"1B","decode":"0s"},
          "inputs":)" +
          c.inputs + R"(,"layers":[)" + front + c.layers + "]}",
      "gradient-case.json"));
}

TEST(GradientCases, CoverEveryLayerType) {
  std::set<std::string> covered;
  for (const Case& c : cases()) covered.insert(c.type);
  for (const LayerType& type : layers_registry().all()) {
    EXPECT_TRUE(covered.count(std::string(type.name)) == 1) << type.name;
    EXPECT_NE(passes_registry().find(type.name), nullptr) << type.name;
  }
}

/// Random numbers in [-1, 1) for the elements of one learned tensor, zero for the others.
std::vector<float> direction_of(const Play& play, const LearnedTensor& learned, uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(play.network().parameters()));
  const Tensor& t = play.network().tensors()[learned.parameter];
  SplitMix64 random(seed);
  for (int64_t i = 0; i < t.elements; ++i)
    out[static_cast<std::size_t>(t.offset + i)] = static_cast<float>(2 * to_unit(random.next()) - 1);
  return out;
}

/// (loss(start + t direction) - loss(start - t direction)) / 2 t.
double difference(Play& play, const std::vector<float>& start, const std::vector<float>& direction,
                  double t) {
  const auto loss = [&](double s) {
    std::vector<float> moved = start;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(s) * direction[i];
    play.set_parameters(moved);
    play.forward();
    return play.loss();
  };
  return (loss(t) - loss(-t)) / (2 * t);
}

/// Error of the directional derivative over its typical size |gradient| |direction| / sqrt(elements).
/// Richardson's extrapolation cancels the second order in the step, so that steps may be large enough for
/// single precision. Kinks (of relu, of a maximum) lie between two points now and then: the best step counts.
double relative_error(Play& play, const std::vector<float>& start, const std::vector<float>& direction,
                      const std::vector<float>& gradient, double floor) {
  double expected = 0, squares = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (direction[i] == 0) continue;
    const double g = static_cast<double>(gradient[i]);
    expected += g * static_cast<double>(direction[i]);
    squares += g * g;
  }
  const double size = std::sqrt(squares / 3) + floor;  // a direction's elements have the variance 1 / 3
  double best = 1e30;
  for (const double t : {0.04, 0.02, 0.01, 0.004, 0.001, 0.0003, 0.0001}) {
    const double wide = difference(play, start, direction, t),
                 narrow = difference(play, start, direction, t / 2);
    best = std::min(best, std::abs((4 * narrow - wide) / 3 - expected) / size);
  }
  return best;
}

class Gradient : public testing::TestWithParam<Case> {};

/// Every learned tensor by itself, so that a large gradient hides no small one. Data gradients show in the
/// weights of the layer in front.
TEST_P(Gradient, EqualsDifferencesOfTheForwardPass) {
  const Case c = GetParam();
  const Graph graph = graph_of(c);
  // The variance of one row is zero: batch normalisation of rows needs several.
  const bool rows = c.type == "batch-norm" && c.inputs == kRow;
  for (const int64_t batch : {rows ? 5 : 1, rows ? 7 : 3}) {
    Play play(graph, batch);
    for (uint64_t trial = 1; trial <= 3; ++trial) {
      play.randomise(trial);
      play.forward();
      play.backward();
      const std::vector<float> gradient = play.gradients(), start = play.parameters();
      double largest = 0;
      for (const float g : gradient) {
        ASSERT_LT(std::abs(g), 1e20F) << "never written";
        largest = std::max(largest, std::abs(static_cast<double>(g)));
      }
      for (const LearnedTensor& l : play.network().learned()) {
        const auto direction = direction_of(play, l, trial + 77);
        EXPECT_LT(relative_error(play, start, direction, gradient, 3e-3 * largest + 1e-4), 0.01)
            << c.layers << " batch " << batch << " trial " << trial << " "
            << graph.layers()[l.layer].parameters[l.index].name << " of " << graph.layers()[l.layer].name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Gradient, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.type + "_" + std::to_string(info.index);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tandem

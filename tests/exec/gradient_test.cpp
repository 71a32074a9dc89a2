// Every layer type on the CPU: the backward pass is held against differences of the forward pass.
#include <gtest/gtest.h>

#include <cmath>
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
      {"avg-pool", kImage, R"({"type":"avg-pool","kernel":3,"stride":2,"pad":1})"},
      {"global-pool", kImage, R"({"type":"global-pool"})"},
      {"adaptive-pool", kImage, R"({"type":"adaptive-pool","size":4})"},
      {"upsample", kImage, R"({"type":"upsample","factor":2})"},
      {"batch-norm", kImage, R"({"type":"batch-norm"})"},
      {"batch-norm", kImage, R"({"type":"batch-norm","affine":false})"},
      {"batch-norm", R"({"signal": [4, 12]})", R"({"type":"batch-norm"})"},
      {"batch-norm", kRow, R"({"type":"batch-norm"})"},
      {"group-norm", kImage, R"({"type":"group-norm","groups":2})"},
      {"pixel-norm", kImage, R"({"type":"pixel-norm"})"},
      {"lrn", kImage, R"({"type":"lrn","window":3})"},
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

TEST(Gradient, EveryLayerTypeHasACase) {
  std::set<std::string> covered;
  for (const Case& c : cases()) covered.insert(c.type);
  for (const LayerType& type : layers_registry().all()) {
    EXPECT_TRUE(covered.count(std::string(type.name)) == 1) << type.name;
    EXPECT_NE(passes_registry().find(type.name), nullptr) << type.name;
  }
}

/// d loss / d t along a random direction of the parameters, by central differences and by the backward pass.
TEST(Gradient, EqualsDifferences) {
  for (const Case& c : cases()) {
    const Graph graph = graph_of(c);
    Play play(graph, 3);
    for (uint64_t trial = 0; trial < 3; ++trial) {
      play.randomise(trial + 1);
      play.forward();
      play.backward();
      const std::vector<float> gradient = play.gradients(), start = play.parameters();
      SplitMix64 random(trial + 77);
      std::vector<float> direction(start.size());
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < start.size(); ++i) {
        direction[i] = static_cast<float>(2 * to_unit(random.next()) - 1);
        expected += static_cast<double>(gradient[i]) * static_cast<double>(direction[i]);
        size += std::abs(static_cast<double>(gradient[i]) * static_cast<double>(direction[i]));
      }
      const auto loss = [&](double t) {
        std::vector<float> moved = start;
        for (std::size_t i = 0; i < moved.size(); ++i)
          moved[i] += static_cast<float>(t * static_cast<double>(direction[i]));
        play.set_parameters(moved);
        play.forward();
        return play.loss();
      };
      // Kinks (relu, maxima) lie between two points now and then: the best of three steps counts.
      double best = 1e30;
      for (const double t : {1e-2, 3e-3, 1e-3}) {
        const double measured = (loss(t) - loss(-t)) / (2 * t);
        best = std::min(best, std::abs(measured - expected) / (0.02 * size + 1e-6 / t));
      }
      EXPECT_LT(best, 1) << c.type << " " << c.layers << " trial " << trial << " expected " << expected
                         << " size " << size;
    }
  }
}

}  // namespace
}  // namespace tandem

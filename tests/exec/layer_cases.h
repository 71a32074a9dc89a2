// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every layer type in its settings, as small graphs: what the tests of kernels walk through.
#include <ostream>
#include <string>
#include <vector>

#include "models/graph.h"

namespace tandem::tests {

/// A layer type in one setting, behind a layer that learns so that data gradients exist.
struct LayerCase {
  std::string type;  ///< that it is about
  std::string inputs, layers;
  /// Batch normalisation over so many devices, all of which have the same samples.
  int32_t norm_devices = 1;
};
inline void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.layers; }

// An "a" input is turned into something that learns by a layer in front, so that data gradients exist.
inline const std::string kImage = R"({"image": [4, 6, 6]})", kRowInput = R"({"row": [12]})",
                         kSequence = R"({"s": [5, 8]})";
inline const std::string kFront = R"({"type":"conv","filters":4,"kernel":1,"name":"front"},)";
inline const std::string kFrontRow = R"({"type":"linear","features":12,"name":"front"},)";
inline const std::string kFrontSequence = R"({"type":"linear","features":8,"name":"front"},)";

inline std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> out{
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
      {"max-pool", R"({"image": [4, 7, 5]})",
       R"({"type":"conv","filters":16,"kernel":1},{"type":"max-pool","kernel":2})"},
      {"max-pool", R"({"image": [4, 7, 5]})",
       R"({"type":"conv","filters":24,"kernel":1},{"type":"max-pool","kernel":2,"ceil":true})"},
      {"max-pool", R"({"image": [4, 9, 7]})",
       R"({"type":"conv","filters":24,"kernel":1},{"type":"max-pool","kernel":3,"stride":2,"pad":1})"},
      {"max-pool", R"({"image": [4, 11, 9]})",
       R"({"type":"conv","filters":8,"kernel":1},{"type":"max-pool","kernel":2,"stride":3},{"type":"conv","filters":3,"kernel":1})"},
      {"avg-pool", R"({"clip": [4, 3, 5, 4]})", R"({"type":"avg-pool","kernel":2,"ceil":true})"},
      {"avg-pool", R"({"clip": [4, 3, 5, 4]})",
       R"({"type":"conv","filters":16,"kernel":1},{"type":"avg-pool","kernel":3,"stride":2,"pad":1})"},
      {"avg-pool", kImage, R"({"type":"avg-pool","kernel":3,"stride":2,"pad":1})"},
      {"global-pool", kImage, R"({"type":"global-pool"})"},
      {"global-pool", kImage, R"({"type":"conv","filters":264,"kernel":1},{"type":"global-pool"})"},
      {"adaptive-pool", kImage, R"({"type":"adaptive-pool","size":4})"},
      {"adaptive-pool", kImage,
       R"({"type":"conv","filters":16,"kernel":1},{"type":"adaptive-pool","size":4})"},
      {"upsample", kImage, R"({"type":"upsample","factor":2})"},
      {"upsample", kImage, R"({"type":"conv","filters":16,"kernel":1},{"type":"upsample","factor":2})"},
      {"batch-norm", kImage, R"({"type":"batch-norm"})"},
      {"batch-norm", kImage, R"({"type":"batch-norm","affine":false})"},
      {"batch-norm", R"({"signal": [4, 12]})", R"({"type":"batch-norm"})"},
      {"batch-norm", kRowInput, R"({"type":"batch-norm"})"},
      {"batch-norm", R"({"clip": [4, 3, 5, 4]})", R"({"type":"batch-norm"})"},
      {"batch-norm", kImage, R"({"type":"batch-norm"},{"type":"relu"})", 2},
      {"batch-norm", kImage, R"({"type":"batch-norm"},{"type":"relu"})"},
      {"batch-norm", kImage,
       R"({"type":"conv","filters":64,"kernel":1},{"type":"batch-norm"},{"type":"relu"},{"type":"conv","filters":3,"kernel":1})"},
      {"batch-norm", R"({"signal": [4, 12]})", R"({"type":"batch-norm","affine":false},{"type":"relu6"})"},
      {"batch-norm", kImage, R"({"type":"batch-norm","frozen":true},{"type":"relu"})"},
      {"batch-norm", kImage,
       R"({"type":"conv","filters":128,"kernel":1,"name":"b"},{"type":"batch-norm","name":"n"},
          {"type":"add","from":["n","b"]},{"type":"relu"},{"type":"conv","filters":3,"kernel":1})"},
      {"batch-norm", kImage,
       R"({"type":"conv","filters":4,"kernel":3,"pad":1},{"type":"batch-norm","name":"k"},
          {"type":"add","from":["k","front"]},{"type":"relu6","name":"r"},
          {"type":"conv","filters":4,"kernel":1},{"type":"batch-norm","name":"n"},
          {"type":"conv","filters":4,"kernel":1,"from":"r"},{"type":"batch-norm","affine":false,"name":"m"},
          {"type":"add","from":["n","m"]},{"type":"relu"},{"type":"global-pool"})"},
      {"batch-norm", kImage, R"({"type":"batch-norm","affine":false})", 3},
      {"batch-norm", R"({"signal": [4, 12]})", R"({"type":"batch-norm"})", 2},
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
      {"linear", kRowInput, R"({"type":"linear","features":7})"},
      {"linear", kSequence,
       R"({"type":"linear","features":7,"name":"w","frozen":true},{"type":"linear","features":2,"from":"front","name":"a","bias":false},
          {"type":"linear","features":7,"name":"b","bias":false},{"type":"add","from":["w","b"]},{"type":"layer-norm","frozen":true})"},
      {"linear", kSequence,
       R"({"type":"linear","features":24,"name":"w","frozen":true,"stored":"nf4-dq"},{"type":"linear","features":8,"frozen":true,"stored":"int8"})"},
      {"experts", kSequence, R"({"type":"experts","count":4,"active":2,"feed":6})"},
      {"experts", kSequence, R"({"type":"experts","count":4,"active":2,"feed":6,"frozen":true})"},
      {"experts", kSequence,
       R"({"type":"experts","count":5,"active":3,"feed":6,"normalized":false,"scale_percent":250})"},
      {"experts", kSequence,
       R"({"type":"experts","count":4,"active":2,"feed":6,"sigmoid":true,"scale_percent":150,"bias":true})"},
      {"experts", kSequence,
       R"({"type":"experts","count":3,"active":1,"feed":6,"normalized":false,"bias":true,"limit":1.5})"},
      {"linear", kSequence, R"({"type":"linear","features":7,"bias":false})"},
      {"linear", kImage, R"({"type":"linear","features":7,"axis":0},{"type":"gelu"})"},
      {"weights", kSequence, R"({"type":"weights","elements":5},{"type":"gelu"})"},
      {"scale", kImage, R"({"type":"scale","axis":0})"},
      {"scale", kSequence, R"({"type":"scale"},{"type":"gelu"},{"type":"scale","frozen":true})"},
      {"layer-norm", kImage, R"({"type":"layer-norm","axis":0})"},
      {"layer-norm", kSequence, R"({"type":"layer-norm","affine":false})"},
      {"layer-norm", kSequence, R"({"type":"layer-norm"})"},
      {"layer-norm", kSequence, R"({"type":"layer-norm","bias":false})"},
      {"rms-norm", kSequence, R"({"type":"rms-norm"})"},
      {"mean", kSequence, R"({"type":"mean"})"},
      {"mean", kSequence, R"({"type":"mean","axis":1})"},
      {"softmax", kSequence, R"({"type":"softmax"})"},
      {"cls-token", kSequence, R"({"type":"cls-token"})"},
      {"position-embedding", kSequence, R"({"type":"position-embedding","length":9})"},
      {"attention", R"({"s": [5, 32]})",
       R"({"type":"linear","features":32,"name":"f"},{"type":"attention","heads":4,"kv_heads":2,"causal":true,"rotary":true,"qk_norm":true})"},
      {"attention", kSequence,
       R"({"type":"linear","features":12,"name":"q","from":"front"},{"type":"linear","features":7,"name":"down","from":"front"},
          {"type":"slice","axis":1,"end":5,"name":"latent"},{"type":"linear","features":14,"name":"kv"},
          {"type":"attention","from":["q","kv","down"],"heads":2,"head_dim":6,"rope_dim":2,"v_head_dim":3,"rotary":true,"causal":true})"},
      {"attention", kSequence,
       R"({"type":"linear","features":12,"name":"q","from":"front"},{"type":"linear","features":7,"name":"down","from":"front"},
          {"type":"slice","axis":1,"end":5,"name":"latent"},{"type":"linear","features":20,"name":"kv"},
          {"type":"attention","from":["q","kv","down"],"heads":2,"head_dim":6,"rope_dim":2,"rotary":true})"},
      {"attention", kSequence,
       R"({"type":"linear","features":12,"name":"k","from":"front"},{"type":"linear","features":12,"name":"v","from":"front"},
          {"type":"linear","features":24,"name":"q","from":"front"},
          {"type":"attention","heads":4,"kv_heads":2,"qk_norm":true,"from":["q","k","v"]})"},
      {"attention", R"({"s": [5, 24]})", R"({"type":"attention","heads":2})"},
      {"attention", R"({"s": [5, 32]})",
       R"({"type":"attention","heads":4,"kv_heads":2,"causal":true,"rotary":true})"},
      {"attention", kSequence,
       R"({"type":"linear","features":4,"name":"k"},{"type":"linear","features":4,"name":"v","from":"front"},
          {"type":"attention","heads":4,"kv_heads":2,"rotary":true,"from":["front","k","v"]})"},
      {"attention", R"({"s": [9, 32]})",
       R"({"type":"linear","features":32,"name":"f"},
          {"type":"attention","heads":4,"kv_heads":2,"causal":true,"rotary":true,"sinks":true,"window":3})"},
      {"attention", R"({"s": [5, 24]})", R"({"type":"attention","heads":2,"bias_buckets":6})"},
      {"attention", R"({"s": [6, 24]})", R"({"type":"attention","heads":2,"parts":3})"},
      {"attention", R"({"s": [16, 24]})",
       R"({"type":"attention","heads":2,"parts":4,"grid":2,"shifted":true})"},
      {"attention", R"({"s": [36, 18]})", R"({"type":"attention","heads":2,"parts":4,"grid":3})"},
      {"roll", kImage, R"({"type":"roll","axis":1,"by":-2},{"type":"conv","filters":2,"kernel":3})"},
      {"roll", kSequence,
       R"({"type":"roll","by":2},{"type":"linear","features":3},{"type":"roll","by":0},{"type":"mean"})"},
      {"attention", R"({"s": [7, 32]})",
       R"({"type":"linear","features":32,"name":"f"},
          {"type":"attention","heads":4,"kv_heads":2,"causal":true,"window":4,"qk_norm":true,"sinks":true,"bias_buckets":5})"},
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
      {"cross-entropy", kRowInput, R"({"type":"cross-entropy"})"},
      {"cross-entropy", kImage, R"({"type":"cross-entropy"})"},
      {"mse", kRowInput, R"({"type":"mse"})"},
      {"mse", kRowInput, R"({"type":"linear","features":12,"name":"b"},{"type":"mse","from":["front","b"]})"},
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
  for (const char* type : {"relu", "relu6", "leaky-relu", "clip", "sigmoid", "tanh", "gelu", "swish",
                           "softplus", "hard-sigmoid", "hard-swish", "relu2", "dropout"})
    out.push_back({type, kImage, R"({"type":")" + std::string(type) + R"("})"});
  return out;
}

inline Graph graph_of(const LayerCase& c) {
  std::string front;
  if (c.inputs == kRowInput) front = kFrontRow;
  if (c.inputs.find("\"s\"") != std::string::npos)
    front = c.inputs == kSequence ? kFrontSequence
                                  : R"({"type":"linear","features":)" +
                                        c.inputs.substr(c.inputs.find(", ") + 2, 2) + R"(,"name":"front"},)";
  if (c.inputs == kImage || c.inputs.find("clip") != std::string::npos ||
      c.inputs.find("signal") != std::string::npos)
    front = kFront;
  Graph graph = Graph::from_json(Json::parse(
      R"({"name":"t","summary":"t","source":"test","sample":{"unit":"samples","stored":"1B","decoded":"1B","decode":"0s"},
          "inputs":)" +
          c.inputs + R"(,"layers":[)" + front + c.layers + "]}",
      "gradient-case.json"));
  if (c.norm_devices == 1) return graph;
  ModelSlice over;
  over.norm_devices = c.norm_devices;
  return graph.slice(over);
}

}  // namespace tandem::tests

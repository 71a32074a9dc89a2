// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small graphs and single layers for the tests of models/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/graph.h"
#include "models/import/hf/config.h"

namespace tandem::tests {

/// One layer lowered by itself: attributes as JSON text ("{}" for none).
inline Lowered lower_one(std::string_view type, const std::vector<Shape>& shapes,
                         const std::string& attributes = "{}", int64_t batch = 1,
                         Precision precision = Precision::fp32) {
  const Json json = Json::parse(attributes, "layer.json");
  const Attributes reader(json);
  Lowered out = layers_registry().at(type).lower({shapes, reader, batch, precision});
  reader.finish();
  return out;
}

inline Graph graph_of(const std::string& text) { return Graph::from_json(Json::parse(text, "test.json")); }

/// Of a config.json of Transformers.
inline Graph graph_of_config(const std::string& text) {
  return Graph::from_json(models::model_of_hf_config(Json::parse(text, "config.json")));
}

/// A model of one input {3,8,8} named "image" with the given layers and, optionally, more top-level keys.
inline Graph image_graph(const std::string& layers, const std::string& more = "") {
  return graph_of(R"({"name": "test", "inputs": {"image": [3, 8, 8]}, )" + more + R"("layers": [)" + layers +
                  "]}");
}

/// The message of the InputError that `action` throws; "" (and a failure) when it throws none.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.what();
  }
  ADD_FAILURE() << "no InputError was thrown";
  return "";
}

inline int64_t parameters(const Lowered& l) {
  int64_t sum = 0;
  for (const Parameter& p : l.parameters) sum += p.elements;
  return sum;
}

/// FLOPs of a list with repeats.
inline int64_t flops(const std::vector<Kernel>& kernels) {
  int64_t sum = 0;
  for (const Kernel& k : kernels) sum += k.flops.n * k.repeat;
  return sum;
}

}  // namespace tandem::tests

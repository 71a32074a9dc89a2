// SPDX-License-Identifier: Apache-2.0
#pragma once
// One layer on inputs of its own, run on the CPU and read in the order of the model's shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/exec/test_run.h"

namespace tandem::tests {

using Values = std::vector<double>;

/// Layers on inputs "a", "b", "c" of the given shapes, with random parameters and inputs.
struct LayerRun {
  Graph graph;
  TestRun graph_run;
  int64_t batch;

  LayerRun(const std::vector<Shape>& shapes, const std::string& layers, int64_t n, uint64_t seed = 5)
      : graph(Graph::from_json(Json::parse(document(shapes, layers), "reference-case.json"))),
        graph_run(graph, n),
        batch(n) {
    graph_run.randomise(seed);
  }

  static std::string document(const std::vector<Shape>& shapes, const std::string& layers) {
    std::string inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inputs += std::string(i == 0 ? "" : ", ") + "\"" + "abc"[i] + "\": [";
      for (std::size_t d = 0; d < shapes[i].size(); ++d)
        inputs += (d == 0 ? "" : ", ") + std::to_string(shapes[i][d]);
      inputs += "]";
    }
    return R"({"name": "test", "inputs": {)" + inputs + R"(}, "layers": [)" + layers + "]}";
  }

  /// Place of element `i`, counted along the shape, within one stored sample.
  static int64_t stored(const Shape& shape, int64_t i) {
    if (shape.size() < 3) return i;
    const int64_t space = elements(shape) / shape[0];
    return i % space * shape[0] + i / space;
  }
  Values read(const float* from, const Shape& shape) const {
    const int64_t n = elements(shape);
    Values out(static_cast<std::size_t>(batch * n));
    for (int64_t i = 0; i < batch * n; ++i)
      out[static_cast<std::size_t>(i)] = static_cast<double>(from[i / n * n + stored(shape, i % n)]);
    return out;
  }
  Values input(std::size_t i = 0) const {
    return read(graph_run.at(graph_run.execution_graph().inputs().at(i)), graph.layers().at(i).output);
  }
  void change_input(const std::function<float(float)>& f) {
    const TensorId t = graph_run.execution_graph().inputs()[0];
    for (int64_t i = 0; i < graph_run.execution_graph().tensors()[t].elements; ++i)
      graph_run.at(t)[i] = f(graph_run.at(t)[i]);
  }
  /// Parameter `name` of the last layer.
  Values parameter(const std::string& name) const {
    const auto layer = static_cast<uint32_t>(graph.layers().size() - 1);
    for (const LearnedTensor& l : graph_run.execution_graph().learned()) {
      if (l.layer != layer || graph.layers()[layer].parameters[l.index].name != name) continue;
      const float* p = graph_run.at(l.parameter);
      return {p, p + graph_run.execution_graph().tensors()[l.parameter].elements};
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }
  std::vector<Values> buffers() const {
    std::vector<Values> out;
    for (TensorId t = 0; t < graph_run.execution_graph().tensors().size(); ++t) {
      const Tensor& x = graph_run.execution_graph().tensors()[t];
      if (x.kind == TensorKind::buffer) out.push_back({graph_run.at(t), graph_run.at(t) + x.elements});
    }
    return out;
  }
  Values run() {
    graph_run.forward();
    return read(graph_run.output(), graph.layers().back().output);
  }
};

inline void expect_near(const Values& got, const Values& want, double tolerance,
                        const std::string& what = "") {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << what << " element " << i;
}

}  // namespace tandem::tests

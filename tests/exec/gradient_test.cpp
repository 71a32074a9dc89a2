// SPDX-License-Identifier: Apache-2.0
// Every layer type, on the CPU or what TANDEM_TEST_BACKEND names: the backward pass is held against
// differences of the forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "base/random.h"
#include "exec/device/backend.h"
#include "tests/exec/layer_cases.h"
#include "tests/exec/test_run.h"

namespace tandem::tests {
namespace {

/// Layers that are predicted, but not executed.
constexpr std::string_view kOnlySimulated[] = {
    "compressed-attention", "compressor",   "elementwise", "grouped-linear", "indexer",
    "linear-attention",     "mamba",        "mamba2",      "matmul",         "short-conv",
    "stream-read",          "stream-write", "xielu"};

TEST(GradientCases, CoverEveryLayerType) {
  std::set<std::string> covered;
  for (const LayerCase& c : layer_cases()) covered.insert(c.type);
  for (const LayerType& type : layers_registry().all()) {
    const bool simulated = std::find(std::begin(kOnlySimulated), std::end(kOnlySimulated), type.name) !=
                           std::end(kOnlySimulated);
    EXPECT_EQ(passes_registry().find(type.name) == nullptr, simulated) << type.name;
    if (simulated) continue;
    EXPECT_TRUE(covered.count(std::string(type.name)) == 1) << type.name;
  }
}

/// Random numbers in [-1, 1) for the elements of one learned tensor, zero for the others.
std::vector<float> direction_of(const TestRun& run, const LearnedTensor& learned, uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(run.execution_graph().parameters()));
  const Tensor& t = run.execution_graph().tensors()[learned.parameter];
  SplitMix64 random(seed);
  for (int64_t i = 0; i < t.elements; ++i)
    out[static_cast<std::size_t>(t.offset + i)] = static_cast<float>(2 * to_unit(random.next()) - 1);
  return out;
}

/// (loss(start + t direction) - loss(start - t direction)) / 2 t.
double difference(TestRun& run, const std::vector<float>& start, const std::vector<float>& direction,
                  double t) {
  const auto loss = [&](double s) {
    std::vector<float> moved = start;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(s) * direction[i];
    run.set_parameters(moved);
    run.forward();
    return run.loss();
  };
  return (loss(t) - loss(-t)) / (2 * t);
}

/// Error of the directional derivative over its typical size |gradient| |direction| / sqrt(elements).
/// Richardson's extrapolation cancels the second order in the step, so that steps may be large enough for
/// single precision. Kinks (of relu, of a maximum) lie between two points now and then: the best step counts.
double relative_error(TestRun& run, const std::vector<float>& start, const std::vector<float>& direction,
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
    const double wide = difference(run, start, direction, t),
                 narrow = difference(run, start, direction, t / 2);
    best = std::min(best, std::abs((4 * narrow - wide) / 3 - expected) / size);
  }
  return best;
}

class Gradient : public testing::TestWithParam<LayerCase> {};

/// Every learned tensor by itself, so that a large gradient hides no small one. Data gradients show in the
/// weights of the layer in front.
TEST_P(Gradient, EqualsDifferencesOfTheForwardPass) {
  const LayerCase c = GetParam();
  const Graph graph = graph_of(c);
  // The variance of one row is zero: batch normalisation of rows needs several.
  const bool rows = c.type == "batch-norm" && c.inputs == kRowInput;
  for (const int64_t batch : {rows ? 5 : 1, rows ? 7 : 3}) {
    TestRun run(graph, batch);
    for (uint64_t trial = 1; trial <= 3; ++trial) {
      run.randomise(trial);
      run.forward();
      run.backward();
      const std::vector<float> gradient = run.gradients(), start = run.parameters();
      double largest = 0;
      for (const float g : gradient) {
        ASSERT_LT(std::abs(g), 1e20F) << "never written";
        largest = std::max(largest, std::abs(static_cast<double>(g)));
      }
      for (const LearnedTensor& l : run.execution_graph().learned()) {
        const auto direction = direction_of(run, l, trial + 77);
        EXPECT_LT(relative_error(run, start, direction, gradient, 3e-3 * largest + 1e-4), 0.01)
            << c.layers << " batch " << batch << " trial " << trial << " "
            << graph.layers()[l.layer].parameters[l.index].name << " of " << graph.layers()[l.layer].name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Gradient, testing::ValuesIn(layer_cases()), [](const auto& info) {
  std::string name = info.param.type + "_" + std::to_string(info.index);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tandem::tests

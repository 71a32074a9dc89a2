// SPDX-License-Identifier: Apache-2.0
// Who reads whose output, and how many gradients come back.
#include "exec/lower/gradient_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::tests {
namespace {

TEST(GradientFlow, CountsReadersAndSetsTheirSumsAside) {
  const Graph graph = Graph::load("resnet18");
  const GradientFlow flow = gradient_flow(graph, 4, Precision::fp32);
  const std::vector<Lowered> whole = graph.lower(4, Precision::fp32);
  std::size_t branches = 0;
  for (uint32_t i = 0; i < graph.layers().size(); ++i) {
    const OutputFlow& output = flow.outputs[i];
    EXPECT_EQ(output.elements, 4 * elements(graph.layers()[i].output));
    for (const uint32_t reader : output.readers)
      EXPECT_THAT(graph.layers()[reader].inputs, testing::Contains(i));
    if (!output.learns) {
      EXPECT_EQ(output.gradients, 0) << "an input";
      continue;
    }
    EXPECT_EQ(output.gradients, static_cast<int64_t>(output.readers.size()));
    EXPECT_EQ(output.sums.size(), output.gradients < 2 ? 0 : static_cast<std::size_t>(output.gradients - 1));
    const std::size_t left = flow.lowered[i].backward_data.size() + flow.lowered[i].backward_weights.size();
    const std::size_t all = whole[i].backward_data.size() + whole[i].backward_weights.size();
    EXPECT_EQ(left + (output.sums.empty() ? 0 : 1), all) << "one kernel of so many repeats";
    branches += output.sums.empty() ? 0 : 1;
  }
  EXPECT_EQ(branches, 8U) << "a residual block each";
}

/// Sentences of both languages are parts of one embedding's output, whose gradient they write together.
TEST(GradientFlow, PartsOfOneOutputCountAsOneGradient) {
  const Graph graph = Graph::load("gnmt");
  const GradientFlow flow = gradient_flow(graph, 1, Precision::fp32);
  int found = 0;
  for (uint32_t i = 0; i < graph.layers().size(); ++i) {
    const OutputFlow& output = flow.outputs[i];
    const auto parts = std::count_if(output.readers.begin(), output.readers.end(),
                                     [&](uint32_t reader) { return flow.takes_part(reader, i); });
    if (parts < 2) continue;
    ++found;
    EXPECT_EQ(output.readers.size(), 2U) << graph.layers()[i].name;
    EXPECT_EQ(output.gradients, 1) << graph.layers()[i].name;
    EXPECT_TRUE(output.sums.empty());
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace tandem::tests

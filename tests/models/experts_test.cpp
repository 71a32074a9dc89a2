// SPDX-License-Identifier: Apache-2.0
#include "helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

constexpr const char* kMixtral = R"({"count": 8, "active": 2, "feed": 14336})";

int64_t flops(const std::vector<Kernel>& kernels, KernelKind kind) {
  int64_t sum = 0;
  for (const Kernel& k : kernels) sum += k.kind == kind ? k.flops.n : 0;
  return sum;
}

/// Each token passes through `active` experts and the router, whatever `count` is.
TEST(Experts, ComputeForTheActiveOnesAndHoldAll) {
  const Lowered l = lower_one("experts", {{1024, 4096}}, kMixtral, 2, Precision::bf16);
  EXPECT_EQ(l.output, (Shape{1024, 4096}));
  int64_t parameters = 0;
  for (const Parameter& p : l.parameters) parameters += p.elements;
  EXPECT_EQ(parameters, 4096LL * 8 + 8LL * 3 * 4096 * 14336);
  const int64_t tokens = 2 * 1024, products = tokens * (2LL * 2 * 3 * 4096 * 14336 + 2LL * 4096 * 8);
  EXPECT_EQ(flops(l.forward, KernelKind::gemm), products);
  EXPECT_EQ(flops(l.backward_data, KernelKind::gemm), products);
  EXPECT_EQ(flops(l.backward_weights, KernelKind::gemm), products);
}

/// Hosts read the router's choice to size what follows, but where every expert takes its capacity.
TEST(Experts, SayWhatHostsReadAndIssueSlowly) {
  const auto counting = [](const Lowered& l) {
    return std::count_if(l.forward.begin(), l.forward.end(), [](const Kernel& k) { return k.counts; });
  };
  const Lowered free = lower_one("experts", {{1024, 4096}}, kMixtral);
  EXPECT_EQ(counting(free), 1);
  EXPECT_TRUE(free.forward[1].counts) << "behind the router's product";
  for (const auto* kernels : {&free.forward, &free.backward_data}) {
    for (const Kernel& k : *kernels) EXPECT_TRUE(k.routed);
  }
  const Graph graph = Graph::load("mixtral-8x7b:layers=1,sequence=32");
  ModelSlice slice;
  slice.capacity = 1.25;
  for (const Lowered& l : graph.slice(slice).lower(1, Precision::bf16)) EXPECT_EQ(counting(l), 0);
}

TEST(Experts, TokensThatDoNotDivideRoundUp) {
  const Lowered l = lower_one("experts", {{5, 8}}, R"({"count": 4, "active": 1, "feed": 16})");
  EXPECT_EQ(l.forward[3].shape, (std::vector<int64_t>{4, 2, 16, 8}));
}

TEST(ExpertsErrors, SayWhatDoesNotFit) {
  const auto fails = [](std::vector<Shape> in, const char* attributes) {
    return error_of([&] { lower_one("experts", in, attributes); });
  };
  EXPECT_THAT(fails({{5, 8}}, R"({"count": 4, "active": 5, "feed": 16})"),
              HasSubstr("5 active experts of 4"));
  EXPECT_THAT(fails({{5, 8, 2}}, kMixtral), HasSubstr("{time, width}"));
}

}  // namespace
}  // namespace tandem::tests

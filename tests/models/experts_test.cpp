// SPDX-License-Identifier: Apache-2.0
#include "tests/models/helpers.h"

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

int64_t moved(const std::vector<Kernel>& kernels) {
  int64_t sum = 0;
  for (const Kernel& k : kernels) sum += k.read.n + k.written.n;
  return sum;
}

/// 8 tokens of 16 features go to 2 experts of 32 each: 16 rows, of 256 elements outside and 512 inside.
TEST(Experts, ClampAndAddTheirBiasesInKernelsOfTheirOwn) {
  const auto lowered = [](const std::string& more) {
    return lower_one("experts", {{8, 16}}, R"({"count": 4, "active": 2, "feed": 32)" + more + "}", 1,
                     Precision::bf16);
  };
  const Lowered plain = lowered(""), limited = lowered(R"(, "limit": 7)"),
                biased = lowered(R"(, "bias": true)");
  constexpr int64_t kInner = 512, kWide = 256, kRows = 16;
  // Two clamps and a concatenation; masks of a byte an element, what they choose, a concatenation.
  EXPECT_EQ(moved(limited.forward) - moved(plain.forward), 2 * kInner * (2 * 2 + 4));
  EXPECT_EQ(moved(limited.backward_data) - moved(plain.backward_data), kInner * (3 * 3 + 2 * 5 + 8));
  EXPECT_EQ(moved(limited.remade) - moved(plain.remade), 2 * kInner * (2 * 2 + 4));
  EXPECT_EQ(own_kept_bytes(limited, 2) - own_kept_bytes(plain, 2), 2 * 2 * kInner);
  // Made, added, put together; put together, multiplied twice, summed for the weights.
  EXPECT_EQ(moved(biased.forward) - moved(plain.forward), 2 * (kRows + 6 * kWide));
  EXPECT_EQ(moved(biased.backward_data) - moved(plain.backward_data), 2 * (7 * kWide + kRows));
  for (const Lowered* l : {&limited, &biased}) {
    for (const auto* kernels : {&l->forward, &l->backward_data}) {
      for (const Kernel& k : *kernels) EXPECT_TRUE(k.routed || k.apart);
    }
  }
}

/// Tokens are read once for each expert and written once, or the reverse, by kernels that nothing is fused
/// with.
TEST(Experts, MoveTokensToTheirExpertsAndBackByThemselves) {
  const Lowered l = lower_one("experts", {{1024, 4096}}, kMixtral, 1, Precision::bf16);
  const int64_t tokens = 2 * 1024 * 4096;  // bytes
  const Kernel &there = l.forward[2], &back = l.forward.back();
  EXPECT_TRUE(there.apart && back.apart);
  EXPECT_EQ(there.written.n, 2 * tokens);
  EXPECT_EQ(back.read.n, 2 * tokens);
  EXPECT_EQ(back.written.n, tokens);
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

/// Nemotron 3: experts of 1,024 features, a router that reads all 4,096.
TEST(Experts, MayReadLessThanTheirRouter) {
  const Lowered l =
      lower_one("experts", {{64, 1024}, {64, 4096}}, R"({"count": 8, "active": 2, "feed": 512})");
  EXPECT_EQ(l.output, (Shape{64, 1024}));
  EXPECT_EQ(parameters(l), 4096 * 8 + 8 * 3 * 1024 * 512);
  EXPECT_EQ(flops(l.forward, KernelKind::gemm), 64 * (2LL * 2 * 3 * 1024 * 512 + 2LL * 4096 * 8));
}

}  // namespace
}  // namespace tandem::tests

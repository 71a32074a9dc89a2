// SPDX-License-Identifier: Apache-2.0
// Every model of the zoo: published figures, and laws that hold for any lowered layer.
#include <cmath>

#include "base/data.h"
#include "models/dot.h"
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

class Zoo : public testing::TestWithParam<std::string> {
 protected:
  const Graph graph = Graph::load(GetParam());
};

bool is_matrix(const Kernel& k) {
  return k.kind == KernelKind::gemm || k.kind == KernelKind::conv || k.kind == KernelKind::attention;
}

TEST_P(Zoo, HasItsPublishedParametersAndFlops) {
  ASSERT_TRUE(graph.published().has_value()) << "state the published figures";
  const Published& p = *graph.published();
  EXPECT_FALSE(p.source.empty());
  if (p.parameters > 0) {
    EXPECT_EQ(graph.parameter_elements(), p.parameters);
  }
  if (p.forward.n > 0) {
    const auto given = static_cast<double>(p.forward.n);
    EXPECT_NEAR(static_cast<double>(graph.forward_flops().n), given, p.tolerance * given);
  }
}

TEST_P(Zoo, DescribesItself) {
  EXPECT_EQ(graph.name(), GetParam());
  EXPECT_FALSE(graph.summary().empty());
  EXPECT_GT(graph.sample().decoded.n, 0);
  EXPECT_GT(graph.sample().stored.n, 0);
  EXPECT_FALSE(model_dot(graph).empty());
}

/// FLOPs recomputed from the kernel's shape alone; -1 where the kind leaves a factor to the layer.
int64_t flops_from_shape(const Kernel& k) {
  const auto& s = k.shape;
  switch (k.kind) {
    case KernelKind::gemm:
      return 2 * s[0] * s[1] * s[2] * s[3];
    case KernelKind::conv:
      return 2 * ConvShape::unpack(s).macs();
    case KernelKind::attention:
      return (k.pass == Pass::forward ? 4 : 10) * s[0] * s[1] * s[3] * s[4] * s[5] / (s[6] + 1);
    case KernelKind::pool:
      return s[0] * s[2] * s[3];
    default:
      return -1;
  }
}

/// Elements read and written, likewise; -1 where they depend on the layer.
std::pair<int64_t, int64_t> elements_from_shape(const Kernel& k) {
  const auto& s = k.shape;
  const bool forward = k.pass == Pass::forward;
  switch (k.kind) {
    case KernelKind::gemm:
      return {s[0] * (s[1] * s[3] + s[3] * s[2]), s[0] * s[1] * s[2]};
    case KernelKind::conv: {
      const ConvShape c = ConvShape::unpack(s);
      const int64_t x = c.in_elements(), y = c.out_elements(), w = c.weight_elements();
      if (forward) return {x + w, y};
      return k.pass == Pass::backward_data ? std::pair{y + w, x} : std::pair{x + y, w};
    }
    case KernelKind::attention: {
      const int64_t q = s[0] * s[1] * s[3] * s[5], kv = 2 * s[0] * s[2] * s[4] * s[5];
      return forward ? std::pair{q + kv, q} : std::pair{3 * q + kv, q + kv};
    }
    case KernelKind::softmax:
      return {-1, s[0] * s[1]};
    default:
      return {-1, -1};
  }
}

void check_kernel(const Kernel& k, Pass pass, int64_t size, const std::string& where) {
  ASSERT_EQ(k.pass, pass) << where;
  ASSERT_GE(k.repeat, 1) << where;
  ASSERT_GE(k.flops.n, 0) << where;
  ASSERT_GT(k.read.n, 0) << where;
  ASSERT_GT(k.written.n, 0) << where;
  for (const int64_t d : k.shape) ASSERT_GE(d, 0) << where;
  const int64_t flops = flops_from_shape(k);
  EXPECT_TRUE(flops < 0 || k.flops.n == flops)
      << where << ": " << k.flops.n << " FLOPs, from the shape " << flops;
  const auto [read, written] = elements_from_shape(k);
  EXPECT_TRUE(read < 0 || k.read.n == size * read) << where << ": reads " << k.read.n;
  EXPECT_TRUE(written < 0 || k.written.n == size * written) << where << ": writes " << k.written.n;
}

TEST_P(Zoo, KernelsFollowFromTheirShapes) {
  const auto lowered = graph.lower(3, Precision::fp16);
  ASSERT_EQ(lowered.size(), graph.layers().size());
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    const std::string& where = graph.layers()[i].name;
    EXPECT_EQ(lowered[i].output, graph.layers()[i].output);
    for (const Kernel& k : lowered[i].forward) check_kernel(k, Pass::forward, 2, where);
    for (const Kernel& k : lowered[i].backward_data) check_kernel(k, Pass::backward_data, 2, where);
    for (const Kernel& k : lowered[i].backward_weights) check_kernel(k, Pass::backward_weights, 2, where);
  }
}

TEST_P(Zoo, MatrixFlopsGrowWithTheBatchAndBackwardIsTwiceForward) {
  const auto one = graph.lower(1, Precision::fp32);
  const auto four = graph.lower(4, Precision::fp32);
  int64_t trained_forward = 0, weights = 0, data = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    // Tokens that do not divide over experts are rounded up.
    const bool experts = graph.layers()[i].type != nullptr && graph.layers()[i].type->name == "experts";
    EXPECT_NEAR(static_cast<double>(matrix_flops(four[i]).n), 4 * static_cast<double>(matrix_flops(one[i]).n),
                experts ? 0.01 * static_cast<double>(matrix_flops(four[i]).n) : 0);
    for (const Kernel& k : one[i].forward) {
      // Attention's backward is 2.5 times its forward and all of it stands in backward-data.
      if (is_matrix(k) && k.kind != KernelKind::attention) trained_forward += k.flops.n * k.repeat;
    }
    for (const Kernel& k : one[i].backward_weights) weights += is_matrix(k) ? k.flops.n * k.repeat : 0;
    for (const Kernel& k : one[i].backward_data)
      data += is_matrix(k) && k.kind != KernelKind::attention ? k.flops.n * k.repeat : 0;
  }
  EXPECT_LE(weights + data, 2 * trained_forward);
  EXPECT_GE(weights, trained_forward);
}

// Their names alone: each test is a process of its own, which need not read all files.
INSTANTIATE_TEST_SUITE_P(Models, Zoo, testing::ValuesIn(list_data("models/zoo")), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

TEST(ZooList, IsSortedAndSummarised) {
  const auto models = list_models();
  ASSERT_GE(models.size(), 50U);
  ASSERT_EQ(models.size(), list_data("models/zoo").size());
  EXPECT_TRUE(std::is_sorted(models.begin(), models.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const ModelEntry& m : models) EXPECT_FALSE(m.summary.empty()) << m.name;
}

TEST(ZooFigures, AreThoseThatEveryoneKnows) {
  const Graph resnet = Graph::load("resnet50");
  EXPECT_EQ(resnet.parameter_elements(), 25557032);
  EXPECT_NEAR(static_cast<double>(resnet.forward_flops().n), 2 * 4.09e9, 0.01e9);
  const Graph vgg = Graph::load("vgg16");
  EXPECT_EQ(vgg.parameter_elements(), 138357544);
  EXPECT_NEAR(static_cast<double>(vgg.forward_flops().n), 2 * 15.47e9, 0.01e9);
  EXPECT_EQ(Graph::load("gpt2").parameter_elements(), 124439808);
}

TEST(ZooFigures, ResNetTrainsForThreeForwardsLessOneFirstGradient) {
  int64_t forward = 0, backward = 0;
  const auto lowered = Graph::load("resnet50").lower(1, Precision::fp32);
  for (const Lowered& l : lowered) {
    for (const Kernel& k : l.forward) forward += is_matrix(k) ? k.flops.n : 0;
    for (const auto* list : {&l.backward_data, &l.backward_weights}) {
      for (const Kernel& k : *list) backward += is_matrix(k) ? k.flops.n : 0;
    }
  }
  EXPECT_EQ(backward, 2 * forward - lowered[1].forward[0].flops.n);
}

}  // namespace
}  // namespace tandem::tests

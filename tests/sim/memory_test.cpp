// What a device must hold, by hand.
#include "sim/memory.h"

#include <gtest/gtest.h>

#include "topologies/system.h"

namespace tandem {
namespace {

constexpr int64_t kDevices = 8;

MemoryUse memory(const char* scheme_text, Precision precision, int64_t devices = kDevices,
                 const char* model = "gpt2", bool recompute = false) {
  const Graph graph = Graph::load(model);
  const Workload work = make_workload(graph, 1, precision, optimizer("adamw"), false, recompute);
  const ResolvedScheme scheme = resolve_scheme(scheme_text, {});
  const System system = System::load("dgx-h100");
  return device_memory(work, system.device(system.accelerator(0)),
                       scheme.scheme->compile(work, {devices, 1, devices}, scheme.options));
}

int64_t parameters() { return Graph::load("gpt2").parameter_elements(); }

int64_t share(int64_t bytes) { return (bytes + kDevices - 1) / kDevices; }

/// Rajbhandari et al. 2020, figure 1, with gradients summed in fp32: 2 + 4 bytes a parameter, 4 of gradient,
/// 8 of Adam's moments.
TEST(Memory, EachStageOfZeroSpreadsMore) {
  const int64_t p = parameters();
  const MemoryUse whole = memory("allreduce", Precision::bf16), one = memory("zero:stage=1", Precision::bf16),
                  two = memory("zero:stage=2", Precision::bf16),
                  three = memory("zero:stage=3", Precision::bf16);
  EXPECT_EQ(whole.parameters.n, 6 * p);
  EXPECT_EQ(whole.gradients.n, 4 * p);
  EXPECT_EQ(whole.optimizer.n, 8 * p);
  EXPECT_EQ(one.parameters.n, 2 * p + share(4 * p));
  EXPECT_EQ(one.gradients.n, 4 * p);
  EXPECT_EQ(one.optimizer.n, share(8 * p));
  EXPECT_EQ(two.parameters.n, one.parameters.n);
  EXPECT_EQ(two.gradients.n, share(4 * p));
  EXPECT_EQ(three.parameters.n, share(2 * p) + share(4 * p));
  EXPECT_EQ(three.optimizer.n, one.optimizer.n);
  for (const MemoryUse& m : {one, two, three}) EXPECT_EQ(m.activations, whole.activations);
}

TEST(Memory, WithoutMixedPrecisionParametersAreHeldOnce) {
  const int64_t p = parameters();
  EXPECT_EQ(memory("zero:stage=1", Precision::fp32).parameters.n, 4 * p);
  EXPECT_EQ(memory("zero:stage=3", Precision::fp32).parameters.n, share(4 * p));
}

/// Beside its share a device holds two gathered buckets and one of gradients.
TEST(Memory, GatheredBucketsCount) {
  const int64_t embedding = 50257 * 768;  // the largest bucket: it exceeds the limit by itself
  const MemoryUse gathered = memory("zero:stage=3", Precision::bf16),
                  copied = memory("zero:stage=2", Precision::bf16);
  EXPECT_GT(gathered.buffers.n - copied.buffers.n, 2 * 2 * embedding);
  EXPECT_LT(gathered.buffers.n - copied.buffers.n, 2 * 2 * (embedding + (25LL << 18)));
}

TEST(Memory, OneDeviceSpreadsNothing) {
  EXPECT_EQ(memory("zero:stage=3", Precision::bf16, 1).total(),
            memory("allreduce", Precision::bf16, 1).total());
}

/// Between two blocks lies one tensor of the hidden width; the logits and what is around them stay.
TEST(Memory, RecomputationKeepsOneTensorABlock) {
  const auto activations = [](const char* model, bool recompute) {
    return memory("allreduce", Precision::bf16, 1, model, recompute).activations.n;
  };
  constexpr int64_t kHidden = 2LL * 1024 * 768;  // bytes: precision x sequence x width
  const int64_t kept = activations("gpt2:layers=24", false) - activations("gpt2", false);
  EXPECT_EQ(activations("gpt2:layers=24", true) - activations("gpt2", true), 12 * kHidden);
  EXPECT_GT(kept, 10 * 12 * kHidden);
  EXPECT_EQ(activations("vgg16", true), activations("vgg16", false)) << "it has no repeated blocks";
}

/// Every layer of a block runs forward twice.
TEST(Memory, RecomputationCostsAForwardPass) {
  const Graph graph = Graph::load("gpt2");
  Workload work = make_workload(graph, 2, Precision::bf16, optimizer("adamw"), false);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  int64_t flops[2] = {}, again = 0;
  for (const bool recompute : {false, true}) {
    work.recompute = recompute;
    const Program p = scheme.scheme->compile(work, {1, 1, 1}, scheme.options);
    for (const Task& t : p.tasks) {
      for (const Kernel& k : t.kernels) flops[recompute ? 1 : 0] += k.flops.n * k.repeat;
    }
  }
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    if (block_of(graph.layers()[i]).empty()) continue;
    for (const Kernel& k : work.layers[i].forward) again += k.flops.n * k.repeat;
  }
  EXPECT_EQ(flops[1] - flops[0], again);
  EXPECT_GT(again, 0);
}

}  // namespace
}  // namespace tandem

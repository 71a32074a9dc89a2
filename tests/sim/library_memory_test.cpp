// SPDX-License-Identifier: Apache-2.0
// What blocks and stages keep beside what the real libraries keep: torch 2.15.0 (saved_tensors_hooks, FSDP's
// accumulated gradients) and torchtitan 0.3.0.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/memory/memory.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

struct Library {
  std::string scheme;
  int64_t devices = 1;
  std::string recompute = "off", kernels = "fused", optimizer = "adamw";
  int64_t batch = 1;
};

std::vector<RoleMemory> stages_of(const std::string& model, const Library& l) {
  const Graph graph = Graph::load(model);
  const Workload work = make_workload(graph, l.batch, Precision::bf16, optimizer(l.optimizer), false,
                                      parse_recompute(l.recompute, {}));
  const ResolvedScheme scheme = resolve_scheme(l.scheme, {});
  auto settings = scheme.memory;
  settings.emplace_back("kernels", l.kernels);
  return memory_by_role(work, Device::load("h200-sxm"),
                        scheme.scheme->compile(work, {l.devices, 1, l.devices}, scheme.options),
                        memory_habits(settings, "memory", {}));
}

/// Bytes that one block keeps, for each element of its input: the difference of two depths.
double kept_by_block(const std::string& model, Library l) {
  l.optimizer = "none";  // whose temporaries would be more
  l.batch = 128;         // so that activations are more than gradients
  const auto peak = [&](int layers) {
    const MemoryUse m = stages_of(fmt::format("{},layers={},sequence=2048", model, layers), l)[0].memory;
    return static_cast<double>(m.total().n - m.parameters.n - m.optimizer.n);
  };
  return (peak(9) - peak(8)) / (static_cast<double>(l.batch) * 2048 * 4096);
}

// DTensor's SequenceParallel on 8 ranks, torch.compile, a feed-forward of four widths: 8.51 bytes;
// Megatron-LM's way, which keeps its part of the gathered inputs, 5.01.
TEST(LibraryMemory, DTensorKeepsGatheredInputs) {
  const std::string hybrid = "hybrid:tensor=8,sequence=on,gathered-inputs=";
  EXPECT_NEAR(kept_by_block("llama2-7b:feed=16384", {hybrid + "kept", 8}), 8.51, 0.01);
  EXPECT_NEAR(kept_by_block("llama2-7b:feed=16384", {hybrid + "again", 8}), 5.01, 0.01);
}

// SelectiveAC keeps a block's input, queries, values, attention and its statistics, w1 and w2, which is
// 1 + 1 + 1/4 + 1 + 7/2 + 1 elements of 2 bytes for Llama 3 8B; FullAC the input alone.
TEST(LibraryMemory, EverySecondProductIsKept) {
  const double statistics = 4.0 * 32 / 4096;
  EXPECT_NEAR(kept_by_block("llama3-8b:fused=1", {"hybrid", 1, "products"}), 2 * 7.75 + statistics, 0.01);
  EXPECT_NEAR(kept_by_block("llama3-8b:fused=1", {"hybrid", 1, "blocks"}), 2, 0.01);
}

// A stage between two FSDP ranks holds its parameters whole in bf16 and the sums of its gradients whole in
// fp32 (FSDPParam.unsharded_accumulated_grad) until its last pass; with keeps=none a block's of either.
TEST(LibraryMemory, StagesHoldWholeGradients) {
  const Graph graph = Graph::load("gpt2:layers=12");
  const auto once = stages_of("gpt2:layers=12", {"torchtitan:pipeline=2,microbatches=4", 4}),
             each = stages_of("gpt2:layers=12", {"torchtitan:pipeline=2,microbatches=4,keeps=none", 4});
  ASSERT_EQ(once.size(), 2U);
  const int64_t stage = 50257 * 768 + 1024 * 768 + 6 * 7'087'872;
  EXPECT_EQ(once[0].memory.gradients.n, 4 * stage);
  EXPECT_NEAR(static_cast<double>(each[0].memory.gradients.n), 4.0 * static_cast<double>(stage) / 2, 1e4);
  EXPECT_EQ(once[0].memory.parameters.n, each[0].memory.parameters.n) << "the shares, in fp32";
  EXPECT_GT(once[0].memory.total().n, each[0].memory.total().n + 2 * 5 * 7'087'872);
}

// FSDP2's blocks that are not resharded behind forward are all there at the end of it.
TEST(LibraryMemory, WhatIsKeptGatheredIsThere) {
  const auto total = [](const char* keeps) {
    return stages_of("gpt2", {fmt::format("zero:stage=3,keeps={}", keeps), 8})[0].memory.total().n;
  };
  EXPECT_GT(total("all"), total("root") + 2 * 9 * 7'087'872);
}

// DiLoCo's anchor and velocity of a worker of several devices are cut as its optimiser's state is.
TEST(LibraryMemory, OuterStateIsShared) {
  const auto state = [](const char* scheme, int64_t devices) {
    return stages_of("gpt2", {scheme, devices})[0].memory.optimizer.n;
  };
  const auto all = static_cast<double>(Graph::load("gpt2").parameter_elements());
  EXPECT_NEAR(static_cast<double>(state("diloco:workers=2,sharding=3", 8)), (8 + 8) * all / 4, 1e4);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Programs of batch normalisation over all devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/data.h"
#include "schemes/setup/job.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

const Graph& small_cnn() {
  static const Graph graph = Graph::load("digits-cnn");
  return graph;
}

Program synced_program(const std::string& text, const Graph& graph, const Cluster& cluster,
                       bool sync = true) {
  const ResolvedScheme scheme = resolve_scheme(text, {});
  Job job{&graph, &scheme, 8, Precision::fp16, &optimizer("momentum"), false};
  job.sync_batch_norm = sync;
  return schemes::compile(job, cluster);
}

TEST(SyncBatchNorm, ProgramIsAsRecorded) {
  const std::string path = std::string(TANDEM_ROOT) + "/tests/golden/programs/allreduce_sync_batch_norm.txt";
  const std::string now =
      "# allreduce with --batch-norm sync\n" + print(synced_program("allreduce", small_cnn(), {4, 2, 2}));
  if (std::getenv("TANDEM_UPDATE_GOLDENS") != nullptr) write_file(path, now);
  EXPECT_EQ(now, read_file(path)) << "rewrite with TANDEM_UPDATE_GOLDENS=1 and explain the change";
}

TEST(SyncBatchNorm, OneDeviceNormalisesByItself) {
  for (const char* text : {"allreduce", "zero", "delayed-allreduce"})
    EXPECT_EQ(print(synced_program(text, small_cnn(), {1, 1, 1})),
              print(synced_program(text, small_cnn(), {1, 1, 1}, false)))
        << text;
}

/// The kernels read and compute as much as those of one device, but for the sums themselves; what is between
/// them waits, also where several layers are one op (ResNet-152 has more of them than a Program has ops).
TEST(SyncBatchNorm, EveryLayerMeetsOnceInEachPass) {
  for (const char* model : {"digits-cnn", "resnet50", "resnet152", "densenet121"}) {
    const Graph graph = Graph::load(model);
    int64_t layers = 0, bytes = 0, met = 0, sums = 0;
    for (const Layer& l : graph.layers()) {
      if (l.type == nullptr || l.type->name != "batch-norm") continue;
      ++layers;
      bytes += 2 * 2 * 4 * l.output[0];
    }
    const Program p = synced_program("allreduce", graph, {4, 1, 4});
    const auto& ops = p.roles[0].ops;
    for (uint32_t i = 0; i < ops.size(); ++i) {
      if (ops[i].payload != Payload::exchanged) continue;
      ++met;
      sums += ops[i].bytes.n;
      // The compute op before makes the statistics, the one behind waits for the sum, and both cover the
      // layer.
      ASSERT_EQ(ops[i - 1].kind, OpKind::compute);
      ASSERT_EQ(ops[i + 1].kind, OpKind::compute);
      for (const uint32_t side : {i - 1, i + 1}) {
        const Task& task = p.tasks[ops[side].what];
        EXPECT_LE(task.layer, ops[i].key);
        EXPECT_GT(task.layer + task.layers, ops[i].key);
      }
      EXPECT_THAT(std::vector<Dep>(ops[i].deps.begin(), ops[i].deps.end()),
                  testing::Contains(testing::Field(&Dep::op, i - 1)));
      EXPECT_THAT(std::vector<Dep>(ops[i + 1].deps.begin(), ops[i + 1].deps.end()),
                  testing::Contains(testing::Field(&Dep::op, i)));
    }
    EXPECT_EQ(met, 2 * layers) << model;
    EXPECT_EQ(sums, bytes) << model;
    const auto flops = [](const Program& program) {
      Flops sum;
      for (const Op& op : program.roles[0].ops) {
        if (op.kind != OpKind::compute) continue;
        for (const Kernel& k : program.tasks[op.what].kernels) sum += k.flops * k.repeat;
      }
      return sum;
    };
    EXPECT_EQ(flops(p), flops(synced_program("allreduce", graph, {4, 1, 4}, false))) << model;
  }
}

void expect_refused(const std::string& scheme, const char* model, const Recompute& recompute,
                    const char* why) {
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  const Graph graph = Graph::load(model);
  Job job{&graph, &resolved, 8, Precision::fp32, &optimizer("sgd"), false};
  job.recompute = recompute;
  job.sync_batch_norm = true;
  try {
    schemes::compile(job, {4, 1, 4});
    ADD_FAILURE() << scheme << " takes it";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(why));
  }
}

TEST(SyncBatchNorm, WhatCannotBeAskedIsRefused) {
  for (const char* text : {"parameter-server:mode=async", "local-sgd", "gossip", "hybrid", "pipeline"})
    expect_refused(text, "digits-cnn", {}, "its workers do not all meet in every iteration");
  expect_refused("allreduce", "lenet5", {}, "no batch normalisation");
  expect_refused("allreduce", "digits-cnn", {.blocks = true}, "--recompute");
}

}  // namespace
}  // namespace tandem::tests

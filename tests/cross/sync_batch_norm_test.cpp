// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over all devices: workers with a part of the batch each are one worker with all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/execute.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

TEST(SyncBatchNorm, WorkersEqualOneWithTheWholeBatch) {
  constexpr int64_t kSamples = 12;
  const ExecutionResult one = learned_digits("allreduce", {1, 1, 1}, kSamples, true, backends()[1]);
  for (const Cluster& cluster : {Cluster{2, 1, 2}, Cluster{3, 1, 3}, Cluster{4, 2, 2}}) {
    for (const char* scheme : {"allreduce", "allreduce:bucket=1KiB", "zero:stage=3,bucket=1KiB"}) {
      for (const std::size_t backend : {1, 3}) {
        SCOPED_TRACE(
            fmt::format("{} on {} of {}", scheme, cluster.devices, std::string(backends()[backend].name)));
        const ExecutionResult all = learned_digits(scheme, cluster, kSamples, true, backends()[backend]);
        EXPECT_LT(furthest(all.parameters, one.parameters), 1e-4);
        EXPECT_LT(furthest(all.buffers, one.buffers), 1e-4) << "running statistics";
        for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(all.losses[i], one.losses[i], 1e-3);
      }
    }
  }
}

/// The same with each worker's own statistics is something else: the test above can fail.
TEST(SyncBatchNorm, OwnStatisticsTrainAnotherModel) {
  const auto parameters = [](bool sync) {
    return learned_digits("allreduce", {2, 1, 2}, 12, sync, backends()[1]).parameters;
  };
  EXPECT_GT(furthest(parameters(true), parameters(false)), 1e-3);
}

/// Both engines sum what the Program says: two floats a channel in each pass of each layer.
TEST(SyncBatchNorm, MovesTheProgramsBytes) {
  const Graph graph = Graph::load("digits-cnn");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e = execution({"allreduce", {2, 1, 2}}, scheme, "null", 3);
  e.job.graph = &graph;
  e.job.sync_batch_norm = true;
  const Program program = make_program(e);
  const ExecutionResult r = execute(e);
  std::vector<int64_t> moved;
  for (const OpTime& t : r.ops) {
    const Op& op = program.roles[0].ops[t.op];
    if (op.kind != OpKind::collective) continue;
    EXPECT_EQ(t.collective_bytes, op.bytes.n) << program.labels[op.label];
    if (op.payload == Payload::exchanged) moved.push_back(t.collective_bytes);
  }
  EXPECT_EQ(moved, (std::vector<int64_t>{8 * 16, 8 * 32, 8 * 32, 8 * 16}));
}

}  // namespace
}  // namespace tandem::tests

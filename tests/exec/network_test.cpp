// SPDX-License-Identifier: Apache-2.0
// What nodes that one machine emulates send each other, counted by the transport.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/execute.h"

namespace tandem::tests {
namespace {

constexpr int32_t kSteps = 5;

/// Bytes a step between nodes of one worker each.
double sent(const char* text, int64_t nodes, std::optional<RateLimit> rate_limit = std::nullopt) {
  const Graph graph = Graph::load("digits-mlp");
  const ResolvedScheme scheme = resolve_scheme(text, {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.cluster = {nodes, nodes, 1};
  e.job.batch = 4;
  e.job.optimizer = &optimizer("sgd");
  e.iterations = kSteps;
  e.warmup = 1;
  e.rate_limit = rate_limit;
  return static_cast<double>(execute(e, {}).sent_between_nodes) / kSteps;
}

/// Of a ring each of n nodes sends 2 (n - 1) / n of the gradients.
TEST(Nodes, SumGradientsOverTcpWithoutARateLimit) {
  const auto bytes = static_cast<double>(4 * Graph::load("digits-mlp").parameter_elements());
  EXPECT_EQ(sent("allreduce:algorithm=ring", 1), 0);
  EXPECT_NEAR(sent("allreduce:algorithm=ring", 2), 2 * bytes, 1);
  EXPECT_NEAR(sent("allreduce:algorithm=ring", 4), 6 * bytes, 1);
  EXPECT_NEAR(sent("allreduce:algorithm=ring", 2, RateLimit{Bandwidth{1e9}, Time{}}), 2 * bytes, 1);
}

/// A server on each node, or one on a node of its own: gradients to those elsewhere, parameters back. The
/// last step's are not asked for.
TEST(Nodes, ReachServersOverTcp) {
  const auto bytes = static_cast<double>(4 * Graph::load("digits-mlp").parameter_elements());
  EXPECT_NEAR(sent("parameter-server", 2), 2 * bytes, 0.02 * bytes);
  EXPECT_NEAR(sent("parameter-server:mode=async", 2), 2 * bytes, 0.02 * bytes);
  EXPECT_NEAR(sent("parameter-server:server=nodes,shards=1", 2), 4 * bytes, 0.02 * bytes);
  EXPECT_NEAR(sent("parameter-server:server=nodes,shards=1", 1), 0, 1) << "one worker updates by itself";
}

TEST(Run, SaysThatWorkersShareProcessors) {
  const Graph graph = Graph::load("digits-mlp");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.job.batch = 4;
  e.job.optimizer = &optimizer("sgd");
  e.iterations = 2;
  e.processors = machine_processors();
  if (e.processors->nodes.empty()) GTEST_SKIP() << "this system does not say which processors it has";
  e.processors->nodes = {{e.processors->nodes[0][0]}};
  for (const int64_t workers : {1, 2}) {
    e.cluster = {workers, 1, workers};
    const auto notes = execute(e, {}).report.notes;
    const bool said = std::any_of(notes.begin(), notes.end(), [](const std::string& n) {
      return n.starts_with("2 workers share 1 processor:");
    });
    EXPECT_EQ(said, workers == 2);
  }
}

/// Everything that crosses from one worker to another: gathered shares, models that are averaged, what stages
/// exchange, tokens of experts.
TEST(Nodes, SendWhateverASchemeMoves) {
  for (const char* scheme :
       {"zero:stage=1", "zero:stage=3", "fsdp", "local-sgd:every=2", "diloco:every=2", "gossip",
        "elastic-averaging:every=2", "parameter-averaging:every=2", "hybrid:pipeline=2,microbatches=2",
        "hybrid:sharding=3", "delayed-allreduce", "allreduce:compression=int8"}) {
    EXPECT_GT(sent(scheme, 2), 1000) << scheme;
  }
}

}  // namespace
}  // namespace tandem::tests

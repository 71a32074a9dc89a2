// SPDX-License-Identifier: Apache-2.0
// Systems too large for transfers of every instance's own.
#include <gtest/gtest.h>

#include "models/optimizer.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

Report predict(const char* system, const char* scheme, int64_t devices, bool input) {
  const Graph graph = Graph::load("resnet50");
  const System machine = System::load(system, {{"nodes", "40"}});
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Request p = prediction_of(graph, machine, resolved, devices);
  p.job.input = input;
  p.iterations = 6;
  return simulate(p);
}

TEST(Large, ResolvedTransfersContinueWhatOwnOnesGive) {
  // 16 GPUs of a node share PCIe switches, one network card, storage and the cores that decode.
  for (const bool input : {false, true}) {
    const Report own = predict("p2.16xlarge", "allreduce", 512, input);
    const Report resolved = predict("p2.16xlarge", "allreduce", 528, input);
    EXPECT_EQ(own.evaluation.evaluator, "sweep");
    EXPECT_EQ(resolved.evaluation.evaluator, "sweep");
    EXPECT_NEAR(resolved.rate.samples_per_second / 528, own.rate.samples_per_second / 512,
                0.01 * own.rate.samples_per_second / 512);
    EXPECT_EQ(own.evaluation.reason.find("taken not to slow each other"), std::string::npos);
    EXPECT_NE(resolved.evaluation.reason.find("taken not to slow each other"), std::string::npos);
    ASSERT_FALSE(resolved.network.links.empty());
    EXPECT_EQ(resolved.network.links.front().name, own.network.links.front().name);
    EXPECT_NEAR(resolved.network.links.front().busy, own.network.links.front().busy, 0.02);
  }
}

TEST(Large, LockStepServersServedInTurnContinueWhatFairSharingGives) {
  const Report fair = predict("infiniband-cluster", "parameter-server:shards=44", 44, false);
  const Report in_turn = predict("infiniband-cluster", "parameter-server:shards=46", 46, false);
  EXPECT_EQ(fair.evaluation.reason.find("one after another"), std::string::npos);
  EXPECT_NE(in_turn.evaluation.reason.find("one after another"), std::string::npos);
  EXPECT_NEAR(in_turn.rate.samples_per_second / 46, fair.rate.samples_per_second / 44,
              0.03 * fair.rate.samples_per_second / 44);
}

}  // namespace
}  // namespace tandem::tests

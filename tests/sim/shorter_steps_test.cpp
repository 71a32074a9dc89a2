// SPDX-License-Identifier: Apache-2.0
// Steps too long for transfers of every instance: two shorter ones, extended, tell what simulating them whole
// does, and nothing jumps where they begin to stand for it.
#include "sim/shorter_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

/// Two stages of a node each over slow Ethernet, whose eight replicas share the node's port.
Report report_of(int64_t micro_batches, int64_t own_executions) {
  static const System system = System::load("p3.16xlarge", {{"nodes", "2"}});
  static const Graph graph =
      Graph::load("gpt2:layers=4,hidden=512,heads=8,sequence=512,vocabulary=128,fused=0");
  const ResolvedScheme scheme =
      resolve_scheme(fmt::format("hybrid:data=8,pipeline=2,microbatches={}", micro_batches), {});
  Request p = prediction_of(graph, system, scheme, 16, 4);
  p.own_executions = own_executions;
  p.iterations = 3;
  p.timeline = false;
  return simulate_rate(p);
}

constexpr int64_t kAll = INT64_MAX;

TEST(ShorterSteps, TellWhatWholeStepsDo) {
  for (const int64_t micro_batches : {64, 96}) {
    const Report whole = report_of(micro_batches, kAll), shorter = report_of(micro_batches, 2'000);
    EXPECT_EQ(whole.evaluation.evaluator, "events");
    EXPECT_EQ(shorter.evaluation.evaluator, "events");
    EXPECT_NE(shorter.evaluation.reason.find("micro-batches are simulated"), std::string::npos);
    EXPECT_LT(shorter.evaluation.events, whole.evaluation.events);
    EXPECT_NEAR(shorter.rate.samples_per_second / whole.rate.samples_per_second, 1, 0.03);
    EXPECT_NEAR(shorter.time.share.exposed_communication, whole.time.share.exposed_communication, 0.03);
    EXPECT_NEAR(shorter.time.share.compute, whole.time.share.compute, 0.03);
    EXPECT_EQ(shorter.setup.samples_per_iteration, whole.setup.samples_per_iteration);
    ASSERT_FALSE(whole.network.links.empty());
    ASSERT_FALSE(shorter.network.links.empty());
    EXPECT_NEAR(static_cast<double>(shorter.network.links[0].bytes.n) /
                    static_cast<double>(whole.network.links[0].bytes.n),
                1, 0.001);
  }
}

TEST(ShorterSteps, RatesDoNotJumpWhereTheyBegin) {
  int64_t short_ones = 0;
  double before = 0;
  for (int64_t micro_batches = 16; micro_batches <= 64; micro_batches += 8) {
    const Report r = report_of(micro_batches, 2'000);
    short_ones += r.evaluation.reason.find("micro-batches are simulated") != std::string::npos ? 1 : 0;
    // More micro-batches fill the pipeline better.
    EXPECT_GT(r.rate.samples_per_second, before * 0.99) << micro_batches;
    if (before > 0) EXPECT_LT(r.rate.samples_per_second, before * 1.15) << micro_batches;
    before = r.rate.samples_per_second;
  }
  EXPECT_GT(short_ones, 1);
  EXPECT_LT(short_ones, 7);
}

TEST(ShorterSteps, AreForLongStepsWithAFullPipeline) {
  Program program;
  program.grid.axes = {{"pipeline", 2}, {"data", 8}};
  EXPECT_FALSE(shorter_steps(program, 64, 0));  // nothing to do
  const ShorterSteps steps{8, 16, 64};
  EXPECT_EQ(steps.beyond(), 6);
  Trace few, more;
  few.iteration_end = {Time{10}, Time{20}};
  more.iteration_end = {Time{18}, Time{36}};
  few.events = 1;
  more.events = 2;
  const Trace all = extended(few, more, steps);
  EXPECT_EQ(all.iteration_end, (std::vector<Time>{Time{66}, Time{132}}));
  EXPECT_EQ(all.events, 3);
}

}  // namespace
}  // namespace tandem::tests

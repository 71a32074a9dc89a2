// SPDX-License-Identifier: Apache-2.0
#include "sim/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/graph.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Capacity : public testing::Test {
 protected:
  Request ask(const ResolvedScheme& scheme, int64_t batch) const {
    Request p = prediction_of(graph_, system_, scheme, 1, batch);
    p.job.optimizer = &optimizer("adamw");
    return p;
  }
  /// "batch 3; recompute blocks, devices 16, set nodes=2", without those of `first`.
  std::string advice(const Request& p, std::vector<Remedy> first = {}) const {
    std::string out;
    for (const Remedy& remedy : sim::remedies(p, sim::memory_on(p, p.devices), sharded_, std::move(first))) {
      out += out.empty() ? "" : "; ";
      for (const auto& [option, value] : remedy.changes)
        out += (&option == &remedy.changes[0].option ? "" : ", ") + option + " " + value;
      EXPECT_LE(remedy.needed, remedy.capacity) << out;
      EXPECT_GE(remedy.devices, p.devices) << out;
    }
    return out;
  }
  std::string advice(const ResolvedScheme& scheme, bool recompute) const {
    Request p = ask(scheme, 4);
    p.job.recompute = {.blocks = recompute};
    return advice(p);
  }
  Graph graph_ = Graph::load("gpt2:layers=48,hidden=1600,heads=25");
  System system_ = System::load("dgx1-v100");
  ResolvedScheme sharded_ = resolve_scheme("zero:stage=3", Place{});
  ResolvedScheme whole_ = resolve_scheme("allreduce", Place{});
};

TEST_F(Capacity, TheFewestDevicesHoldTheModelAndOneLessDoesNot) {
  for (const int64_t batch : {1, 2}) {
    const Request p = ask(sharded_, batch);
    const int64_t fewest = sim::fewest_devices(p);
    ASSERT_GT(fewest, 2) << batch;
    EXPECT_TRUE(sim::memory_on(p, fewest).fits()) << batch;
    EXPECT_FALSE(sim::memory_on(p, fewest - 1).fits()) << batch;
  }
  EXPECT_EQ(sim::fewest_devices(ask(whole_, 1)), 0) << "each holds all of it";
}

TEST_F(Capacity, AdviceNamesWhatHelpsAndNothingElse) {
  const std::string replicated = advice(whole_, false);
  EXPECT_THAT(replicated, HasSubstr("scheme zero:stage=3"));
  EXPECT_THAT(replicated, HasSubstr("recompute blocks"));
  const std::string already = advice(sharded_, false);
  EXPECT_THAT(already, Not(HasSubstr("scheme")));
  EXPECT_THAT(already, HasSubstr("recompute blocks"));
  EXPECT_THAT(advice(sharded_, true), Not(HasSubstr("recompute")));
}

TEST_F(Capacity, LargerDevicesComeInAHostThatHoldsTheRest) {
  const Graph large = Graph::load("llama3-405b:sequence=512");
  Request p = ask(sharded_, 1);
  p.job.graph = &large;
  p.devices = 2;
  p.job.recompute = {.blocks = true};
  p.job.offload = {.optimizer = true, .gradients = true, .parameters = true};
  EXPECT_THAT(advice(p), testing::MatchesRegex("swap device=[a-z0-9-]*, set host.memory=6052GiB; swap .*"));
}

/// Once each, and a larger device last.
TEST_F(Capacity, WhatTheCallerKnowsComesFirst) {
  const Remedy fused{{{"memory", "loss=fused"}}, 1, {}, {}}, again{{{"recompute", "blocks"}}, 1, {}, {}};
  const Request p = ask(whole_, 4);
  EXPECT_THAT(advice(p, {fused, again}), StartsWith("memory loss=fused; recompute blocks; "));
  EXPECT_THAT(advice(p), HasSubstr("; swap device="));
}

TEST_F(Capacity, OffloadIsAdvisedWhereTooFewDevicesHoldTheModelWithoutIt) {
  EXPECT_THAT(advice(whole_, false), HasSubstr("offload optimizer+gradients"));
  Request p = ask(whole_, 4);
  p.job.recompute = {.blocks = true};
  EXPECT_FALSE(sim::memory_on(p, 1).fits());
  p.job.offload = {.optimizer = true, .gradients = true};
  EXPECT_TRUE(sim::memory_on(p, 1).fits());
  p.devices = 64;  // so many hold shards of it
  p.job.offload = {};
  EXPECT_THAT(advice(p), Not(HasSubstr("offload")));
}

TEST_F(Capacity, SpeedUpsCountFromTheFewestDevices) {
  Request p = ask(sharded_, 1);
  const int64_t fewest = sim::fewest_devices(p);
  p.devices = 8;
  ASSERT_LT(fewest, p.devices);
  p.check_memory = true;
  const Report r = simulate(p);
  EXPECT_EQ(r.scaling.base_devices, fewest);
  p.devices = fewest;
  const Report base = simulate(p);
  EXPECT_NEAR(r.scaling.speedup, r.rate.samples_per_second / base.rate.samples_per_second, 1e-6);
  EXPECT_NEAR(r.scaling.efficiency, r.scaling.speedup * static_cast<double>(fewest) / 8, 1e-9);
}

/// 11 of 16 would do; three on the second node would share its network cards unlike the eight on the first.
TEST_F(Capacity, SpeedUpsCountFromWholeNodes) {
  const System system = System::load("dgx-h100", {{"nodes", "3"}});
  const Graph graph = Graph::load("llama2-70b:layers=52,sequence=2048");
  const ResolvedScheme scheme = resolve_scheme("fsdp", {});
  Request p;
  p.system = &system;
  p.devices = 24;
  p.job.graph = &graph;
  p.job.scheme = &scheme;
  p.job.batch = 1;
  p.job.precision = Precision::bf16;
  p.job.optimizer = &optimizer("adam");
  p.job.recompute = {.blocks = true};
  p.job.input = false;
  const int64_t fewest = sim::fewest_devices(p);
  ASSERT_GT(fewest, 8);
  ASSERT_LT(fewest, 16);
  EXPECT_EQ(sim::simulate(p).scaling.base_devices, 16);
}

}  // namespace
}  // namespace tandem::tests

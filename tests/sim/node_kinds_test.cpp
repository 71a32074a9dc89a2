// SPDX-License-Identifier: Apache-2.0
// Systems of several kinds of nodes, and batches split by the speed of their devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "models/optimizer.h"
#include "schemes/setup/uneven_batches.h"
#include "sim/batch_split.h"
#include "sim/bound/placement.h"
#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/sweep.h"
#include "sim/simulate.h"
#include "sim/simulation.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kMixed = "v100-p100-pcie-16x";

System mixed(const System::Sets& sets = {}) { return System::load(kMixed, sets); }

/// All nodes as one of its kinds describes them.
System only(const std::string& kind) {
  return kind == "v100" ? System::load("v100-pcie-8x", {{"nodes", "2"}})
                        : mixed({{"nodes", "2"}, {"node_kinds.p100.nodes", "2"}});
}

/// Kinds that say what the base says anyway.
System same_twice() {
  Json document = System::document("v100-pcie-8x", {{"nodes", "3"}});
  Json devices = document.at("devices"), host = document.at("host");
  document.set("node_kinds", Json::parse(R"({"second": {"nodes": 1}, "third": {"nodes": 1}})", "kinds"));
  Json kinds = document.at("node_kinds"), second = kinds.at("second");
  second.set("devices", devices);
  second.set("host", host);
  kinds.set("second", second);
  document.set("node_kinds", kinds);
  return System::from_json(document);
}

double calm_rate(Request p) {
  p.disturbance = Disturbance{};
  return throughput(p);
}

TEST(NodeKinds, DescribedAlikeTheyChangeNothing) {
  const Graph graph = Graph::load("resnet20-cifar");
  const System plain = System::load("v100-pcie-8x", {{"nodes", "3"}}), kinds = same_twice();
  ASSERT_EQ(kinds.kinds().size(), 3U);
  for (const char* scheme : {"pytorch-ddp", "allreduce:algorithm=tree", "parameter-server:mode=async",
                             "zero:stage=3", "hybrid:pipeline=2,microbatches=2", "horovod"}) {
    const ResolvedScheme resolved = resolve_scheme(scheme, {});
    for (const double sigma : {0.0, 0.02}) {
      const auto report = [&](const System& system) {
        Request p = prediction_of(graph, system, resolved, 24);
        p.job.input = true;
        p.timeline = false;
        p.iterations = 6;
        p.disturbance.emplace();
        p.disturbance->iteration_sigma = sigma;
        Report r = simulate(p);
        // Equal instances may fold where there is one kind.
        r.evaluation.evaluator = r.evaluation.reason = "";
        return reports_to_json({r}, true);
      };
      EXPECT_TRUE(report(plain) == report(kinds)) << scheme << " " << sigma;
    }
  }
}

TEST(NodeKinds, WhereAllMeetTheSlowOneSetsThePace) {
  const Graph graph = Graph::load("resnet50");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const System both = mixed(), slow = only("p100"), fast = only("v100");
  const double rate = calm_rate(prediction_of(graph, both, scheme, 16));
  EXPECT_NEAR(rate / calm_rate(prediction_of(graph, slow, scheme, 16)), 1, 0.02);
  EXPECT_LT(rate, 0.8 * calm_rate(prediction_of(graph, fast, scheme, 16)));
  // A device of its own, times all of them, is what the step cannot beat.
  const double alone = calm_rate(prediction_of(graph, slow, scheme, 1));
  EXPECT_LE(rate, 16 * alone);
  EXPECT_GE(rate, 0.9 * 16 * alone);
}

TEST(NodeKinds, ManyNodesArePricedByAFewOfEachKind) {
  const Graph graph = Graph::load("resnet50");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  // As many devices as have transfers of their own, and twice as many that have not.
  const System few = mixed({{"nodes", "64"}, {"node_kinds.p100.nodes", "32"}}),
               many = mixed({{"nodes", "128"}, {"node_kinds.p100.nodes", "64"}}),
               slow = mixed({{"nodes", "128"}, {"node_kinds.p100.nodes", "128"}});
  const double rate = calm_rate(prediction_of(graph, many, scheme, 1024));
  EXPECT_NEAR(rate / calm_rate(prediction_of(graph, few, scheme, 512)), 2, 0.05);
  EXPECT_NEAR(rate / calm_rate(prediction_of(graph, slow, scheme, 1024)), 1, 0.02);
  // Slow links of the last nodes count, however large the group.
  const System choked =
                   mixed({{"nodes", "256"}, {"node_kinds.p100.nodes", "1"}, {"faults.nic0:cpu0", "0.02"}}),
               whole = mixed({{"nodes", "256"}, {"node_kinds.p100.nodes", "1"}});
  EXPECT_LT(calm_rate(prediction_of(graph, choked, scheme, 2048)),
            0.5 * calm_rate(prediction_of(graph, whole, scheme, 2048)));
}

TEST(NodeKinds, FastWorkersOfAnAsynchronousServerDoMore) {
  const Graph graph = Graph::load("resnet50");
  const ResolvedScheme scheme = resolve_scheme("parameter-server:mode=async,shards=2", {});
  // Two devices, one of each kind.
  const System two = mixed({{"place", "0"}});
  ASSERT_EQ(two.accelerator_count(), 2);
  const System v100 = System::load("v100-pcie-8x"), p100 = System::load("p100-pcie-8x");
  const ResolvedScheme plain = resolve_scheme("allreduce", {});
  Request p = prediction_of(graph, two, scheme, 2);
  p.iterations = 400;
  const Report r = simulate(p);
  ASSERT_EQ(r.staleness.by_worker.size(), 2U);
  const double fast = calm_rate(prediction_of(graph, v100, plain, 1)),
               slow = calm_rate(prediction_of(graph, p100, plain, 1));
  const double ratio = static_cast<double>(r.staleness.by_worker[0].count()) /
                       static_cast<double>(r.staleness.by_worker[1].count());
  EXPECT_NEAR(ratio, fast / slow, 0.12 * fast / slow);
  EXPECT_NEAR(r.rate.samples_per_second / (fast + slow), 0.95, 0.06) << "less what pushes and pulls cost";
  // Between two gradients of the slow one the other makes `ratio` in the mean, and the reverse.
  EXPECT_NEAR(r.staleness.by_worker[1].mean(), ratio, 0.15);
  EXPECT_NEAR(r.staleness.by_worker[0].mean(), 1 / ratio, 0.15);
}

TEST(NodeKinds, TheSmallestMemoryDecides) {
  const Graph graph = Graph::load("vgg16");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const System both = mixed({{"node_kinds.p100.devices.gpu[0-7].model", "k80"}}),
               big = System::load("v100-pcie-8x", {{"nodes", "2"}});
  Request p = prediction_of(graph, both, scheme, 16, 150);
  const Report refused = simulate(p);
  EXPECT_FALSE(refused.fits);
  EXPECT_EQ(refused.memory.capacity.n, both.device(both.accelerator(8)).usable.n);
  ASSERT_EQ(refused.memory_by_role.size(), 2U);
  EXPECT_EQ(refused.memory_by_role[1].role, "worker on k80");
  EXPECT_EQ(refused.memory_by_role[1].devices, 8);
  EXPECT_TRUE(refused.memory_by_role[0].memory.fits());
  p.devices = 8;
  EXPECT_TRUE(simulate(p).fits) << "the first node alone";
  p.devices = 16;
  p.system = &big;
  EXPECT_TRUE(simulate(p).fits);
  // By speed the small one gets fewer samples.
  p.system = &both;
  p.split = BatchSplit::speed;
  EXPECT_TRUE(simulate(p).memory_by_role[1].memory.fits());
}

TEST(BatchSplit, WholeSamplesInProportionAndAllOfThem) {
  EXPECT_THAT(in_proportion({2, 1, 1}, 10), ElementsAre(5, 3, 2)) << "of equal remainders the first";
  EXPECT_THAT(in_proportion({1, 1, 1}, 96), ElementsAre(32, 32, 32));
  EXPECT_THAT(in_proportion({1000, 1, 1}, 6), ElementsAre(4, 1, 1)) << "no one is without";
  for (int n = 1; n < 40; ++n) {
    std::vector<double> speeds;
    for (int i = 0; i < n; ++i) speeds.push_back(1 + (i * 37 % 11));
    for (const int64_t total : {int64_t{n}, int64_t{3 * n + 1}, int64_t{32 * n}}) {
      const auto parts = in_proportion(speeds, total);
      EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0}), total);
      const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
      for (std::size_t i = 0; i < parts.size() && total >= 12 * n; ++i)
        EXPECT_LT(std::abs(static_cast<double>(parts[i]) - static_cast<double>(total) * speeds[i] / sum), 1);
    }
  }
}

TEST(BatchSplit, BySpeedComesNearTheSumOfSpeeds) {
  const Graph graph = Graph::load("vgg16");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const System both = mixed({{"place", "0"}, {"network.bandwidth", "800Gbit/s"}});
  const System v100 = System::load("v100-pcie-8x"), p100 = System::load("p100-pcie-8x");
  Request p = prediction_of(graph, both, scheme, 2, 64);
  const double even = calm_rate(p);
  p.split = BatchSplit::speed;
  const double speed = calm_rate(p);
  const double fast = calm_rate(prediction_of(graph, v100, scheme, 1, 64)),
               slow = calm_rate(prediction_of(graph, p100, scheme, 1, 64));
  EXPECT_LE(even, 2 * slow);
  EXPECT_LE(speed, fast + slow);
  EXPECT_GE(speed, 0.85 * (fast + slow)) << "less what the reduction costs";
  EXPECT_GT(speed, 1.1 * even);
  const auto parts = Simulation(p).batches(make_cluster(both, 2))->samples;
  EXPECT_EQ(parts[0] + parts[1], 128);
  EXPECT_NEAR(static_cast<double>(parts[0]) / 128, fast / (fast + slow), 0.01);
  const Report r = simulate(p);
  EXPECT_EQ(r.setup.samples_per_iteration, 128);
  EXPECT_THAT(r.notes, ::testing::Contains(HasSubstr("batch split by speed")));
}

TEST(BatchSplit, OfEqualDevicesIsEven) {
  const Graph graph = Graph::load("resnet50");
  const ResolvedScheme scheme = resolve_scheme("pytorch-ddp", {});
  const System system = System::load("v100-pcie-8x");
  Request p = prediction_of(graph, system, scheme, 8);
  const double even = throughput(p);
  p.split = BatchSplit::speed;
  EXPECT_DOUBLE_EQ(throughput(p), even);
  const System hurt = System::load("v100-pcie-8x", {{"faults.gpu3", "0.5"}});
  p.system = &hurt;
  const auto parts = Simulation(p).batches(make_cluster(hurt, 8))->samples;
  EXPECT_NEAR(static_cast<double>(parts[3]) / static_cast<double>(parts[0]), 0.5, 0.05)
      << "a device that a fault slows gets less";
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0}), 8 * 32);
}

TEST(BatchSplit, WhatNeedsEqualBatchesIsRefused) {
  const Graph graph = Graph::load("resnet50");
  const System both = mixed();
  for (const auto& [name, words] : {std::pair{"parameter-server:mode=async", "do not wait for each other"},
                                    {"hybrid:pipeline=2,microbatches=4", "divides the model over devices"}}) {
    const ResolvedScheme scheme = resolve_scheme(name, {});
    Request p = prediction_of(graph, both, scheme, 16);
    p.split = BatchSplit::speed;
    try {
      simulate(p);
      ADD_FAILURE() << name;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
  }
}

TEST(BatchSplit, EvaluatorsAgree) {
  const Graph graph = Graph::load("resnet50");
  const System both = mixed();
  for (const char* name : {"allreduce", "pytorch-ddp", "zero:stage=2", "local-sgd:every=4", "horovod"}) {
    const ResolvedScheme scheme = resolve_scheme(name, {});
    for (const BatchSplit split : {BatchSplit::even, BatchSplit::speed}) {
      for (const double sigma : {0.0, 0.03}) {
        Request p = prediction_of(graph, both, scheme, 16);
        p.split = split;
        p.disturbance.emplace();
        p.disturbance->iteration_sigma = sigma;
        BoundProgram plan = make_plan(p);
        // Transfers at their time alone, so that the sweep may run it.
        for (Transfer& t : plan.transfers)
          t = {.latency = t.alone(plan.capacity), .bytes = 0, .cap = 0, .uses = {}};
        const EvaluateOptions options{.iterations = 6, .kept_iterations = 2, .kept_instances = 16};
        const Trace a = run_events(plan, options), b = run_sweep(plan, options);
        EXPECT_EQ(a.iteration_end, b.iteration_end) << name;
        EXPECT_EQ(a.makespan, b.makespan) << name;
        EXPECT_EQ(a.fingerprint, b.fingerprint) << name;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests

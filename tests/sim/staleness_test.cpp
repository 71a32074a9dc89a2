// SPDX-License-Identifier: Apache-2.0
// Staleness where closed forms know it: unlike workers, nodes that push as one, dropped gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "sim/evaluate/events.h"
#include "tests/sim/prediction.h"
#include "tests/sim/workloads.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using workloads::parameter_server;
using workloads::ServerSetting;

/// While a worker computes on one version, each other makes as many gradients as it does steps in that time.
TEST(Staleness, OfOneSlowWorkerAmongMany) {
  for (const int32_t workers : {2, 4, 8}) {
    for (const double slow : {1.0, 2.0, 3.0}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, one " << slow << " times as slow");
      BoundProgram plan = parameter_server({.workers = workers});
      const auto last = static_cast<uint32_t>(workers - 1);
      plan.disturbance.slow = {{last, slow}};
      const int32_t iterations = 600;
      const Trace t = run_events(plan, {.iterations = iterations});
      EXPECT_EQ(t.worker_iterations, int64_t{workers} * iterations);
      EXPECT_EQ(t.versions, int64_t{workers} * iterations);
      const Histogram& of_slow = t.staleness_by_worker[last];
      const Histogram& of_fast = t.staleness_by_worker[0];
      EXPECT_NEAR(of_slow.mean(), (workers - 1) * slow, 0.02 * workers);
      EXPECT_NEAR(of_fast.mean(), workers - 2 + 1 / slow, 0.02 * workers);
      EXPECT_NEAR(t.staleness.mean(), workers - 1, 0.02 * workers);
      EXPECT_NEAR(static_cast<double>(of_fast.count()) / static_cast<double>(of_slow.count()), slow, 0.02);
    }
  }
}

/// Every gradient is merged between two of every other worker's, so the mean is W - 1 whatever the speeds:
/// only what is merged after a worker's own last gradient is missing.
TEST(Staleness, MeanIsWorkersLessOneAtAnySpeeds) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto workers = static_cast<int32_t>(2 + seed % 7);
    ServerSetting s{.workers = workers, .apply = Time{static_cast<int64_t>(seed % 5) * 20'000}};
    s.message = {Time{static_cast<int64_t>(seed % 3) * 300'000}, 100, 1e9, {}};
    BoundProgram plan = parameter_server(s);
    plan.seed = seed;
    plan.disturbance.compute_sigma = 0.1 * static_cast<double>(seed % 6);
    for (uint32_t w = 1; w < static_cast<uint32_t>(workers); ++w)
      plan.disturbance.slow.emplace_back(w, 1 + static_cast<double>((seed * w) % 4));
    const int32_t iterations = 200;
    const Trace t = run_events(plan, {.iterations = iterations});
    EXPECT_EQ(t.staleness.count(), int64_t{workers} * iterations);
    EXPECT_LE(t.staleness.mean(), workers - 1) << seed;
    EXPECT_GE(t.staleness.mean(), 0.97 * (workers - 1)) << seed;
  }
}

/// Behind the run-in alike workers come one after the other, round by round: W - 1 to the last digit, however
/// few rounds. Before it, the first gradients are on the version that all began with.
TEST(Staleness, WithoutTheRunInIsExactInFewRounds) {
  for (const int32_t workers : {2, 5, 16, 64}) {
    const BoundProgram plan = parameter_server({.workers = workers});
    const Trace all = run_events(plan, {.iterations = 10}),
                steady = run_events(plan, {.iterations = 10, .run_in = 4});
    EXPECT_NEAR(all.staleness.mean(), (workers - 1) * 0.95, 1e-9);
    EXPECT_EQ(steady.staleness.mean(), workers - 1);
    EXPECT_EQ(steady.staleness.count(), 6 * workers);
    EXPECT_EQ(steady.fingerprint, all.fingerprint);
    EXPECT_EQ(steady.versions, all.versions);
  }
}

/// Unlike workers and noise: a tenth of the rounds tells the mean as well as all of them did with the run-in.
TEST(Staleness, WithoutTheRunInIsWorkersLessOneInFewRounds) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto workers = static_cast<int32_t>(8 + seed % 7 * 4);
    ServerSetting s{.workers = workers};
    s.message = {Time{static_cast<int64_t>(seed % 3) * 300'000}, 100, 1e9, {}};
    BoundProgram plan = parameter_server(s);
    plan.seed = seed;
    plan.disturbance.compute_sigma = 0.1 * static_cast<double>(1 + seed % 5);
    const Trace t = run_events(plan, {.iterations = 20, .run_in = 8});
    EXPECT_NEAR(t.staleness.mean(), workers - 1, 0.02 * workers) << seed;
    EXPECT_NEAR(static_cast<double>(t.staleness.count()), 12 * workers, workers) << seed;
  }
}

/// Of gradients dropped, too, those before are not counted: of four, one at half speed, a seventh are.
TEST(Staleness, WithoutTheRunInAsManyGradientsAreDropped) {
  ServerSetting s{.workers = 4, .gate = true};
  s.store = {.batch = 3, .quorum = 3, .slack = 0, .drop_late = true};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.slow = {{3, 2.0}};
  const Trace all = run_events(plan, {.iterations = 400}),
              steady = run_events(plan, {.iterations = 400, .run_in = 200});
  EXPECT_NEAR(steady.kept_share(), all.kept_share(), 0.01);
  EXPECT_NEAR(static_cast<double>(steady.dropped), 0.5 * static_cast<double>(all.dropped), 4);
}

/// The rate of unlike workers is the sum of their own.
TEST(Staleness, DifferentWorkersRatesAddUp) {
  BoundProgram plan = parameter_server({.workers = 4, .compute = Time{1'000'000}});
  plan.disturbance.slow = {{3, 4.0}};
  const Trace t = run_events(plan, {.iterations = 400});
  const auto rounds = static_cast<double>(t.iteration_end.size());
  EXPECT_GE(rounds, 398);
  EXPECT_NEAR(4 * rounds / t.iteration_end.back().seconds(), 3.25e6, 0.01e6);
}

/// Slack bounds how far a slow worker is left behind, and nobody who has ended holds others back.
TEST(Staleness, SlackBoundsDifferentWorkers) {
  ServerSetting s{.workers = 4, .gate = true};
  s.store = {.batch = 1, .quorum = 4, .slack = 2};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.slow = {{3, 2.0}};
  const Trace t = run_events(plan, {.iterations = 300});
  EXPECT_EQ(t.worker_iterations, 4 * 300);
  // The slow one's gradient opens the gate for all others at once, who then come one after the other.
  for (uint32_t w = 0; w < 4; ++w) EXPECT_NEAR(t.staleness_by_worker[w].mean(), w, 0.05) << w;
  EXPECT_NEAR(t.iteration_end.back().seconds(), 300 * 2e-6, 0.02 * 300 * 2e-6);
}

/// What interrupts a machine does so for as long whatever a device computes: one that is three times slower
/// meets three times as many interruptions, not longer ones.
TEST(Staleness, SlowDevicesMeetMoreInterruptionsNotLongerOnes) {
  BoundProgram plan = parameter_server({.workers = 2});
  plan.disturbance.recorded = {{1, 1, 1, 7}, {1, 1, 1, 7}};
  std::vector<double> fast, slow;
  for (uint32_t i = 0; i < 4; ++i) fast.push_back(plan.iteration_factor(0, 1, i));
  EXPECT_THAT(fast, ::testing::UnorderedElementsAre(1, 1, 1, 7));
  plan.disturbance.slow = {{1, 4.0}};
  for (uint32_t i = 0; i < 4; ++i) slow.push_back(plan.iteration_factor(0, 1, i));
  EXPECT_THAT(slow, ::testing::Each(4 * 2.5)) << "one of four steps in each";
  plan.disturbance.slow = {{1, 1.5}};
  double sum = 0;
  for (uint32_t i = 0; i < 8; ++i) sum += plan.iteration_factor(0, 1, i);
  EXPECT_NEAR(sum, 8 * 1.5 * 2.5, 1e-12) << "the same in the mean";
  EXPECT_EQ(plan.iteration_factor(0, 0, 2), fast[2]) << "others as before";
}

TEST(Staleness, TimelineShowsTheLastIterationsOfDifferentWorkers) {
  BoundProgram plan = parameter_server({.workers = 3});
  plan.disturbance.slow = {{2, 5.0}};
  const EvaluateOptions options{.iterations = 2000, .kept_iterations = 2};
  const Trace t = run_events(plan, options);
  for (uint32_t worker = 0; worker < 3; ++worker) {
    uint32_t first = UINT32_MAX, last = 0;
    for (const Span& span : t.spans) {
      if (span.role != 0 || span.instance != worker) continue;
      first = std::min(first, span.iteration);
      last = std::max(last, span.iteration);
    }
    EXPECT_EQ(last - first, 1U) << worker;
    EXPECT_EQ(last + 1, t.staleness_by_worker[worker].count()) << worker;
  }
}

Report predict(const std::string& scheme_text, const System& system, int64_t devices,
               const Disturbance& disturbance) {
  static const Graph graph = Graph::load("lenet5");
  const ResolvedScheme scheme = resolve_scheme(scheme_text, {});
  Request p = prediction_of(graph, system, scheme, devices);
  p.job.optimizer = &optimizer("sgd");
  p.disturbance = disturbance;
  return simulate(p);
}

/// A node's devices push a share of each key, which no other of them changes: nodes are what is counted.
TEST(Staleness, OfNodesThatPushAsOneIsNodesLessOne) {
  const System system = System::load("p3.8xlarge", {{"nodes", "4"}});
  for (const int64_t nodes : {1, 2, 3, 4}) {
    for (const char* overlap : {"on", "off"}) {
      const Report r = predict(fmt::format("parameter-server:mode=async,push=node,overlap={}", overlap),
                               system, 4 * nodes, {});
      EXPECT_NEAR(r.staleness.all.mean(), static_cast<double>(nodes - 1), 0.02) << nodes << " " << overlap;
    }
  }
}

/// Where push and pull are two requests, what others merge between them is no staleness: of W - 1 versions in
/// a worker's round of T that is 2 L / T, the way of an answer and of a request, once rounds that differ have
/// parted the workers.
TEST(Staleness, OfTwoRequestsLacksWhatIsMergedBetweenThem) {
  constexpr int64_t kWorkers = 8;
  Disturbance spread;
  spread.iteration_sigma = 0.3;
  for (const double microseconds : {0.0, 100.0, 400.0}) {
    const System system = System::load(
        "infiniband-cluster", {{"nodes", "16"}, {"network.latency", fmt::format("{}us", microseconds)}});
    const Report r = predict("parameter-server:mode=async,overlap=off,shards=1,server=nodes,pull=separate",
                             system, kWorkers, spread);
    const double round = static_cast<double>(r.setup.samples_per_iteration) / r.rate.samples_per_second,
                 way = 2e-6 * microseconds;  // over two links
    EXPECT_NEAR(r.staleness.all.mean(), (kWorkers - 1) * (1 - 2 * way / round), 0.15)
        << microseconds << " us of " << round << " s";
  }
}

/// Of many workers that the network does not hold up few rounds are simulated: as good as many, and without
/// the run-in the mean staleness is what the law says. Where it does, as many as of few workers.
TEST(Staleness, OfManyWorkersNeedsFewRounds) {
  for (const bool wide : {true, false}) {
    SCOPED_TRACE(wide);
    const ResolvedScheme scheme =
        resolve_scheme(fmt::format("parameter-server:mode=async,overlap=off,shards={}", wide ? 4 : 16), {});
    const int64_t workers = wide ? 64 : 128;
    const System system = System::load(wide ? "infiniband-cluster" : "ethernet-cluster");
    const Graph graph = Graph::load(wide ? "resnet50" : "vgg16");
    Request p = prediction_of(graph, system, scheme, workers);
    p.check_memory = false;
    const Report tried = simulate(p);
    p.iterations = 60;
    const Report many = simulate(p);
    const bool few = tried.evaluation.events < many.evaluation.events / 3;
    EXPECT_EQ(few, wide);
    EXPECT_NEAR(tried.rate.samples_per_second / many.rate.samples_per_second, 1, few ? 0.01 : 0.05);
    for (const Report* r : {&tried, &many}) EXPECT_NEAR(r->staleness.all.mean() / (workers - 1.0), 1, 0.02);
  }
}

/// Workers meet a server once in a hundred iterations, over a network that takes far longer for it than the
/// iterations take: both ways of two workers of a node over its one line.
TEST(Staleness, RareExchangesCount) {
  const System system = System::load("5090-2x", {{"nodes", "16"}, {"network.bandwidth", "1Gbit/s"}});
  const Graph graph = Graph::load("vgg16");
  constexpr int64_t kWorkers = 32, kEvery = 100;
  const ResolvedScheme alone = resolve_scheme("allreduce", {});
  const Request one = prediction_of(graph, system, alone, 1);
  const double iteration = static_cast<double>(one.job.batch) / throughput(one);
  const double exchange = 2 * 2 * 4 * static_cast<double>(graph.parameter_elements()) / 125e6;
  for (const char* text : {"elastic-averaging:mode=async,every=100", "async-diloco:every=100"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    Request p = prediction_of(graph, system, scheme, kWorkers);
    p.check_memory = false;
    const Report r = simulate_rate(p);
    const double seconds = static_cast<double>(kWorkers * kEvery * p.job.batch) / r.rate.samples_per_second;
    EXPECT_NEAR(seconds / (kEvery * iteration + exchange), 1, 0.02) << text;
    EXPECT_NEAR(r.time.share.exposed_communication, exchange / seconds, 0.02) << text;
    EXPECT_NEAR(r.staleness.all.mean(), kWorkers - 1, 0.5) << text;
  }
}

/// A gradient that is dropped trains nothing: with one of four at half speed, three count.
TEST(Staleness, DroppedGradientsAreNoSamples) {
  ServerSetting s{.workers = 4, .gate = true};
  s.store = {.batch = 3, .quorum = 3, .slack = 0, .drop_late = true};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.slow = {{3, 2.0}};
  const Trace t = run_events(plan, {.iterations = 400});
  const auto rounds = static_cast<double>(t.iteration_end.size());
  EXPECT_NEAR(t.kept_share() * 4 * rounds / t.iteration_end.back().seconds(), 3e6, 0.02e6);

  // Whether the fourth comes a little late or never makes no difference.
  const System system = System::load("p3.8xlarge");
  double rates[2] = {};
  for (const int i : {0, 1}) {
    Disturbance slow;
    slow.slow = {{3, i == 0 ? 2.0 : 1000.0}};
    rates[i] = predict("parameter-server:mode=backup,backup=1", system, 4, slow).rate.samples_per_second;
  }
  EXPECT_NEAR(rates[0] / rates[1], 1, 0.04);
}

}  // namespace
}  // namespace tandem::tests

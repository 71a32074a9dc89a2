// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/sweep.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

using workloads::parameter_server;
using workloads::ServerSetting;

constexpr int64_t kMs = 1'000'000'000;

/// Worker-iterations per second after the first quarter.
double steady_rate(const Trace& t, int workers) {
  const std::size_t n = t.iteration_end.size(), first = n / 4;
  const Time took = t.iteration_end[n - 1] - t.iteration_end[first - 1];
  return workers * static_cast<double>(n - first) / took.seconds();
}

/// 37 ms of compute and 12 of communication, of which the last 3 ms are in the way of the update unless that
/// waits for the reduce of `lag` iterations ago; reduced in each `every`-th iteration.
Trace overlap(uint16_t lag, uint16_t every, int32_t iterations) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 4}}});
  w.compute({}, "forward");
  const OpId late = w.compute({}, "backward, last layers");
  const OpId early = w.compute({}, "backward, first layers");
  const OpId first =
      w.collective(CollKind::all_reduce, 1, Bytes{9}, "ring", "reduce").after(late).every(every);
  const OpId second =
      w.collective(CollKind::all_reduce, 1, Bytes{3}, "ring", "reduce").after(early).every(every);
  OpHandle update = w.compute({}, "update");
  for (const OpId reduced : {first, second}) {
    if (lag == 0) {
      update.after(reduced);
    } else {
      update.after_last(reduced, lag);
    }
  }
  BoundProgram plan;
  plan.transfers = {{Time{9 * kMs}, 0, 0, {}}, {Time{3 * kMs}, 0, 0, {}}};
  plan.roles = {{{},
                 {{Time{12 * kMs}, Time{12 * kMs}, Time{12 * kMs}, Time{}, Time{}, Time{kMs}}},
                 {{-1, -1, -1, 0, 1, -1}}}};
  plan.program = std::make_shared<Program>(b.finish());
  const Trace events = run_events(plan, {.iterations = iterations});
  EXPECT_EQ(events.fingerprint, run_sweep(plan, {.iterations = iterations}).fingerprint);
  return events;
}

TEST(Events, OverlapOracles) {
  EXPECT_EQ(overlap(0, 1, 8).makespan, Time{8 * 40 * kMs});        // 37 + the 3 that nothing hides
  EXPECT_EQ(overlap(1, 1, 8).makespan.ps / kMs / 8, 37);           // delayed: all hidden
  EXPECT_EQ(overlap(0, 4, 8).makespan, Time{8 * 37'750'000'000});  // every 4th: 37 + 3/4
  EXPECT_EQ(overlap(0, 1, 8).exposed_to(Wait::communication), Time{8 * 3 * kMs});
  EXPECT_EQ(overlap(1, 1, 8).exposed_to(Wait::communication),
            Time{2 * kMs});  // the very last reduce, less the update
}

/// Two compute ops of 1 and 6 ms, which the host issues in 4 ms and `second`.
BoundProgram issued(int64_t second, bool runs_ahead) {
  auto program = std::make_shared<Program>();
  program->labels = {"op"};
  program->tasks.emplace_back();
  program->roles.push_back({"worker", {{{"device", 2}}}, Site::accelerators, -1, {Op{}, Op{}}});
  BoundProgram plan;
  plan.program = program;
  RoleCosts costs;
  costs.duration = {{Time{kMs}, Time{6 * kMs}}};
  costs.transfer = {{-1, -1}};
  costs.issued = {{Time{4 * kMs}, Time{(4 + second) * kMs}}};
  costs.issue = {costs.issued[0][1]};
  costs.runs_ahead = runs_ahead;
  plan.roles.push_back(costs);
  return plan;
}

TEST(Events, AStepTakesAsLongAsTheSlowerOfHostAndDevice) {
  for (const auto& run : {run_events, run_sweep, evaluate}) {
    const EvaluateOptions options{.iterations = 8};
    // The host is ahead from the second iteration on: the device's 7 ms, after the 3 that it began late.
    const Trace ahead = run(issued(1, true), options);
    EXPECT_EQ(ahead.makespan, Time{(3 + 8 * 7) * kMs});
    EXPECT_EQ(ahead.exposed_to(Wait::launch), Time{3 * kMs});
    EXPECT_EQ(ahead.busy[0], Time{8 * 7 * kMs});
    // A host that waits for the device begins late every time.
    EXPECT_EQ(run(issued(1, false), options).makespan, Time{8 * 10 * kMs});
    // 13 ms of issuing bind, and no surcharge adds to them.
    const Trace bound = run(issued(9, true), options);
    EXPECT_EQ(bound.makespan, Time{8 * 13 * kMs});
    EXPECT_EQ(bound.exposed_to(Wait::launch), Time{8 * 6 * kMs});
  }
}

TEST(Events, AHostThatReadsAResultIssuesWhatFollowsBehindIt) {
  for (const auto& run : {run_events, run_sweep, evaluate}) {
    // The first op is issued in 4 ms and read; 7 ms later the second is, which has long been waiting.
    BoundProgram plan = issued(7, true);
    plan.roles[0].awaited = {true, false};
    const Trace read = run(plan, {.iterations = 8});
    EXPECT_EQ(read.makespan, Time{8 * 11 * kMs});
    EXPECT_EQ(read.exposed_to(Wait::launch), Time{8 * (3 + 1) * kMs});
    // Read, the second op leaves the host no start: it begins with the next iteration when that has ended.
    plan.roles[0].awaited = {false, true};
    EXPECT_EQ(run(plan, {.iterations = 8}).makespan, Time{8 * 11 * kMs});
    plan.roles[0].issued[0] = {Time{4 * kMs}, Time{5 * kMs}};
    plan.roles[0].issue = {Time{5 * kMs}};
    EXPECT_EQ(run(plan, {.iterations = 8}).makespan, Time{8 * 10 * kMs});
  }
}

TEST(Events, LatencyFollowsThePayloadAndFreesTheLane) {
  // Two keys pushed one after the other: 2 us each on the lane, 5 us of latency overlap.
  ServerSetting s{.workers = 1, .keys = 2};
  s.message = {Time{5'000'000}, 2000, 1e9, {}};
  const Trace t = run_events(parameter_server(s), {.iterations = 1});
  // compute 1, push 2 + 2, latency 5, reply 2, latency 5 = 17 us.
  EXPECT_EQ(t.makespan, Time{17'000'000});
  EXPECT_EQ(t.versions, 2);
}

TEST(Events, PushesOfSeveralWorkersShareTheServersLink) {
  ServerSetting s{.workers = 4};
  s.message = {Time{}, 1000, 0, {{0, 1}}};
  BoundProgram plan = parameter_server(s);
  plan.capacity = {1e9};
  const Trace t = run_events(plan, {.iterations = 1});
  // All push at 1 us, each at a quarter: 4 us; then all replies at once: 4 us more.
  EXPECT_EQ(t.makespan, Time{9'000'000});
  EXPECT_EQ(t.link_bytes[0], 8000);
}

TEST(Events, AsynchronousStalenessIsWorkersMinusOne) {
  for (const int32_t workers : {1, 4, 16, 64}) {
    ServerSetting s{.workers = workers};
    BoundProgram plan = parameter_server(s);
    plan.disturbance.compute_sigma = 0.2;
    const int32_t iterations = 200;
    const Trace t = run_events(plan, {.iterations = iterations});
    EXPECT_EQ(t.versions, int64_t{workers} * iterations);
    EXPECT_EQ(t.staleness.count(), int64_t{workers} * iterations);
    EXPECT_NEAR(t.staleness.mean(), workers - 1, 0.05 * workers) << workers;
    EXPECT_EQ(t.dropped, 0);
  }
}

TEST(Events, SynchronousStalenessIsZeroAndVersionsAreRounds) {
  ServerSetting s{.workers = 8, .shards = 3, .keys = 2, .gate = true};
  s.store.batch = 8;
  s.store.quorum = 8;
  s.apply = Time{1000};
  s.message = {Time{2000}, 100, 1e9, {}};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.compute_sigma = 0.5;
  const Trace t = run_events(plan, {.iterations = 20});
  EXPECT_EQ(t.staleness.max(), 0);
  EXPECT_EQ(t.versions, 3 * 2 * 20);
}

TEST(Events, StaleSynchronousClocksStayWithinSlack) {
  for (const int32_t slack : {0, 1, 3}) {
    ServerSetting s{.workers = 6, .gate = true};
    s.store = {.batch = 1, .quorum = 6, .slack = slack};
    BoundProgram plan = parameter_server(s);
    plan.disturbance.compute_sigma = 0.3;
    plan.disturbance.slow = {{2, 3.0}};
    const Trace t = run_events(plan, {.iterations = 45, .kept_iterations = 100});
    // When iteration k starts anywhere, every worker has ended iteration k - 1 - slack; all make the
    // first 40.
    std::vector<Time> ended(60), begun(60, Time{kNever});
    for (const Span& span : t.spans) {
      if (span.role != 0) continue;
      if (span.op == 0) begun[span.iteration] = std::min(begun[span.iteration], span.start);
      if (span.op == 1) ended[span.iteration] = std::max(ended[span.iteration], span.end);
    }
    int64_t spread = 0;
    for (int k = slack + 1; k < 40; ++k) {
      EXPECT_GE(begun[static_cast<std::size_t>(k)], ended[static_cast<std::size_t>(k - slack - 1)]) << slack;
    }
    for (int k = slack; k < 40; ++k) {
      if (begun[static_cast<std::size_t>(k)] < ended[static_cast<std::size_t>(k - slack)]) ++spread;
    }
    EXPECT_GT(spread, 0) << "the slack is never used";
    EXPECT_LE(t.staleness.max(), int64_t{6} * (2 * slack + 1));
  }
}

TEST(Events, SoftSynchronousStalenessIsAboutN) {
  // n-softsync merges floor(W / n) gradients a version: about n versions pass while a worker computes.
  for (const int32_t n : {1, 2, 4, 10}) {
    ServerSetting s{.workers = 40};
    s.store.batch = 40 / n;
    BoundProgram plan = parameter_server(s);
    plan.disturbance.compute_sigma = 0.2;
    const Trace t = run_events(plan, {.iterations = 200});
    EXPECT_NEAR(t.staleness.mean(), n, 0.1 * n + 0.1) << n;
  }
}

TEST(Events, BackupWorkersDropLateGradients) {
  ServerSetting s{.workers = 10, .gate = true};
  s.store = {.batch = 8, .quorum = 8, .slack = 0, .drop_late = true};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.compute_sigma = 0.3;
  const Trace t = run_events(plan, {.iterations = 50});
  EXPECT_EQ(t.staleness.max(), 0);
  EXPECT_GT(t.dropped, 0);
  EXPECT_EQ(t.staleness.count() + t.dropped, 500);
  EXPECT_EQ(t.versions, t.staleness.count() / 8);
}

TEST(Events, ASaturatedServerSetsTheRate) {
  ServerSetting s{.workers = 32, .compute = Time{100'000}, .apply = Time{50'000}};
  const Trace t = run_events(parameter_server(s), {.iterations = 40});
  // Demand 32 / 100 ns is over the service rate 1 / 50 ns.
  EXPECT_EQ(t.makespan, Time{100'000 + 32 * 40 * 50'000});
  EXPECT_NEAR(steady_rate(t, 32), 1e12 / 50'000, 0.02e12 / 50'000);
  EXPECT_NEAR(t.staleness.mean(), 31, 1);
}

TEST(Events, LittlesLawHoldsForGradientsOnTheWay) {
  ServerSetting s{.workers = 16, .apply = Time{30'000}};
  s.message = {Time{200'000}, 100, 1e9, {}};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.compute_sigma = 0.4;
  const int32_t iterations = 300;
  const Trace t =
      run_events(plan, {.iterations = iterations, .kept_iterations = 2 * iterations, .kept_instances = 16});
  // Time from a step's start to its recv's end, times the rate, is the number of workers.
  double inside = 0;
  std::vector<std::vector<Time>> start(16, std::vector<Time>(static_cast<std::size_t>(2 * iterations)));
  for (const Span& span : t.spans) {
    if (span.role != 0) continue;
    if (span.op == 0) start[span.instance][span.iteration] = span.start;
  }
  for (const Span& span : t.spans) {
    if (span.role == 0 && span.op == 2) inside += (span.end - start[span.instance][span.iteration]).seconds();
  }
  const double mean = inside / (16.0 * iterations);
  EXPECT_NEAR(steady_rate(t, 16) * mean, 16, 0.3);
}

TEST(Events, AnswersAreCopiedOneAfterAnotherBeforeAnythingIsMerged) {
  ServerSetting s{.workers = 4, .gate = true, .compute = Time{10}, .apply = Time{5}, .snapshot = Time{20}};
  s.store = {.batch = 4, .quorum = 4};
  // Merged at 15, 20, 25 and 30, answered at 50, 70, 90 and 110. Who has an answer computes meanwhile, but
  // waits until all have theirs: merged at 115, 120, 125 and, pushed at 120, 130.
  const Trace t = run_events(parameter_server(s), {.iterations = 2});
  EXPECT_EQ(t.iteration_end[0], Time{110});
  EXPECT_EQ(t.makespan, Time{130 + 4 * 20});
  EXPECT_EQ(t.staleness.max(), 0);
  // A push that comes while answers are copied is merged behind them.
  s.store = {};
  s.gate = false;
  const Trace free = run_events(parameter_server(s), {.iterations = 3});
  EXPECT_EQ(free.makespan, Time{10 + 3 * 4 * (5 + 20)});
  EXPECT_EQ(free.versions, 12);
}

TEST(Events, WhoWaitsAtAGateIsAnsweredInTheOrderOfPushes) {
  ServerSetting s{.workers = 4, .gate = true, .compute = Time{20}, .apply = Time{5}, .snapshot = Time{1}};
  s.store = {.batch = 4, .quorum = 4};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.slow = {{3, 2}};
  const Trace t = run_events(plan, {.iterations = 2, .kept_iterations = 2, .kept_instances = 4});
  Time ends[2][4];
  for (const Span& span : t.spans) {
    if (span.role == 0 && span.op == 2) ends[span.iteration][span.instance] = span.end;
  }
  // Merged at 25, 30, 35 and 45, since worker 3 computes twice as long; then at 71, 76, 81 and 94.
  for (int64_t w = 0; w < 4; ++w) EXPECT_EQ(ends[0][w], Time{46 + w});
  for (int64_t w = 0; w < 4; ++w) EXPECT_EQ(ends[1][w], Time{49 + 40 + 5 + 1 + w});
}

TEST(Events, ReplyIsStampedAtItsStart) {
  // Worker 1's gradient is merged while the reply to worker 0 is under way: the stamp does not see it.
  ServerSetting s{.workers = 2, .compute = Time{10'000}};
  s.message = {Time{}, 1, 1e6, {}};  // 1 us on the way
  BoundProgram plan = parameter_server(s);
  plan.disturbance.slow = {{1, 1.5}};
  const Trace t = run_events(plan, {.iterations = 2});
  // Merges: w0 (0 on 0), w1 (1 on 0), w0 (its reply left before w1's merge: 2 on 1), w1 (3 on 2).
  EXPECT_EQ(t.staleness_by_worker[0].mean(), 0.5);
  EXPECT_EQ(t.staleness_by_worker[1].mean(), 1);
}

TEST(Events, RunsAreReproducibleAndSeedsMatter) {
  ServerSetting s{.workers = 12, .shards = 2, .keys = 3};
  s.message = {Time{1000}, 100, 0, {{0, 1}}};
  BoundProgram plan = parameter_server(s);
  plan.capacity = {1e9};
  plan.disturbance.compute_sigma = 0.1;
  plan.disturbance.network_sigma = 0.1;
  const Trace a = run_events(plan, {}), b = run_events(plan, {});
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  plan.seed = 2;
  EXPECT_NE(a.fingerprint, run_events(plan, {}).fingerprint);
}

TEST(Events, ADeadlockIsNamed) {
  Builder b;
  RoleBuilder first = b.role("idler", Mesh{{{"data", 4}}});
  first.compute({}, "work");
  RoleBuilder w = b.role("worker", Mesh{{{"data", 4}}}, Site::hosts);
  const uint32_t gossip = b.channel(w, w, Address::sampled_peer, {Bytes{8}});
  w.send(gossip, 0, Bytes{8}, "push");
  w.recv(gossip, 0, "pull");
  BoundProgram plan;
  plan.program = std::make_shared<Program>(b.finish());
  plan.roles = {{{}, {{Time{}}}, {{-1}}}, {{}, {{Time{}, Time{}}}, {{-1, -1}}}};
  plan.messages = std::make_shared<workloads::UniformMessages>(Transfer{}, Time{});
  std::string said;
  for (plan.seed = 1; plan.seed < 50 && said.empty(); ++plan.seed) {
    try {
      run_events(plan, {.iterations = 20});
    } catch (const ProgramError& e) {
      said = e.what();
    }
  }
  EXPECT_THAT(said, testing::MatchesRegex("deadlock: role \"worker\", instance [0-3] never gets past op .*"));
}

TEST(Events, TimesBeyondTheRangeAreRefused) {
  ServerSetting s{.compute = Time{kNever - 1}};
  EXPECT_THROW(run_events(parameter_server(s), {.iterations = 3}), InputError);
}

TEST(Factors, AreLognormalWithMeanOne) {
  BoundProgram plan;
  plan.disturbance.compute_sigma = 0.5;
  plan.disturbance.network_sigma = 0.3;
  double compute = 0, squares = 0, network = 0;
  const int n = 200'000;
  for (int i = 0; i < n; ++i) {
    const double f = plan.compute_factor(0, static_cast<uint32_t>(i), 3, 7);
    compute += f;
    squares += std::log(f) * std::log(f);
    network += plan.transfer_factor(0, static_cast<uint32_t>(i), 3, 7);
  }
  EXPECT_NEAR(compute / n, 1, 0.005);
  EXPECT_NEAR(network / n, 1, 0.005);
  EXPECT_NEAR(squares / n, 0.25 + 0.125 * 0.125, 0.005);  // variance + mean^2 of the logarithm
}

}  // namespace
}  // namespace tandem::tests

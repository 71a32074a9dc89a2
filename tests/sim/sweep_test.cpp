// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/evaluate/contention.h"
#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/sweep.h"
#include "tests/sim/random_plan.h"
#include "tests/sim/same_trace.h"

namespace tandem::tests {
namespace {

using workloads::RandomPlan;
using workloads::RandomPlanOptions;

constexpr EvaluateOptions kOptions{.iterations = 9, .kept_iterations = 3, .kept_instances = 5};

TEST(Sweep, EqualsEventsBitForBit) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const RandomPlanOptions options{
        .noisy = seed % 2 == 0, .irregular = seed % 5 == 0, .links = seed % 3 == 0};
    const BoundProgram plan = RandomPlan(seed, options).make();
    ASSERT_EQ(find_contention(plan).who, "") << seed;
    expect_same(run_sweep(plan, kOptions), run_events(plan, kOptions), seed);
    if (HasFailure()) return;
  }
}

/// Without it, compute ops that ask the same of all rows are run together.
TEST(Sweep, IsTheSameWithoutItsFingerprint) {
  EvaluateOptions without = kOptions;
  without.fingerprint = false;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    BoundProgram plan =
        RandomPlan(seed, {.noisy = seed % 2 == 0, .irregular = seed % 5 == 0, .links = seed % 7 < 3}).make();
    if (seed % 4 == 0) plan.disturbance.compute_sigma = 0;
    for (RoleCosts& costs : plan.roles) {
      if (seed % 3 == 0) costs.class_of.clear();  // all are of the first class
    }
    Trace with = run_sweep(plan, kOptions);
    with.fingerprint = 0;
    expect_same(run_sweep(plan, without), with, seed);
    if (HasFailure()) return;
  }
}

/// Rounding that loops can be vectorised over is that of single values.
TEST(Sweep, ShortTimesRoundAsAllDo) {
  EXPECT_EQ(short_picoseconds(0), 0);
  EXPECT_EQ(short_picoseconds(0.5e-12), picoseconds(0.5e-12));
  for (uint64_t i = 0; i < 100'000; ++i) {
    const double seconds = to_unit(mix64(i)) * std::ldexp(1e-12, static_cast<int>(i % 49));
    ASSERT_EQ(short_picoseconds(seconds), picoseconds(seconds)) << seconds;
    const int64_t whole = static_cast<int64_t>(mix64(i) >> (15 + i % 49));
    ASSERT_EQ(short_picoseconds(Time{whole}.seconds()), whole);
  }
}

TEST(Sweep, FoldedEqualsUnfolded) {
  int folded = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const BoundProgram plan = RandomPlan(seed, {.uniform = true}).make();
    ASSERT_EQ(what_differs(plan), "");
    expect_same(run_folded(plan, kOptions), run_events(plan, kOptions), seed);
    const Trace chosen = evaluate(plan, kOptions);
    folded += chosen.evaluator == "folded" ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_EQ(folded, 300);
}

TEST(Sweep, ScalingAllDurationsScalesAllTimes) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Trace one = evaluate(RandomPlan(seed, {}).make(), kOptions);
    const Trace seven = evaluate(RandomPlan(seed, {.scale = 7}).make(), kOptions);
    EXPECT_EQ(seven.makespan, one.makespan * 7) << seed;
    ASSERT_EQ(one.spans.size(), seven.spans.size());
    for (std::size_t s = 0; s < one.spans.size(); ++s) {
      EXPECT_EQ(seven.spans[s].start, one.spans[s].start * 7);
      EXPECT_EQ(seven.spans[s].end, one.spans[s].end * 7);
    }
  }
}

TEST(Sweep, TimeSharesOfWorkerZeroAddUp) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const BoundProgram plan = RandomPlan(seed, {.noisy = true}).make();
    const Trace t = evaluate(plan, {.iterations = 9, .kept_iterations = 9});
    Time end;
    for (const Span& s : t.spans) end = s.role == 0 && s.instance == 0 ? std::max(end, s.end) : end;
    Time sum = t.busy[0], moved, awaited;
    for (const Time& time : t.exposed) sum += time;
    for (const Time& time : t.moved) moved += time;
    for (const auto& [worker, time] : t.awaited) awaited += time;
    EXPECT_EQ(sum, end) << seed;
    EXPECT_EQ(moved, t.exposed_to(Wait::communication)) << seed;
    EXPECT_EQ(awaited, t.exposed_to(Wait::waiting)) << seed;
  }
}

TEST(Sweep, RefusesProgramsWithMessages) {
  EXPECT_THROW(run_sweep(workloads::parameter_server({}), {}), ProgramError);
}

TEST(Evaluate, TimesCopiesOverOneLinkTogether) {
  // Two instances copy over one link: each alone could fill it.
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 2}}});
  w.copy(CopyKind::host_to_device, Bytes{1000}, "load");
  BoundProgram plan;
  plan.capacity = {1e9};
  plan.name_link = [](uint32_t) { return "pcie0"; };
  plan.transfers = {{Time{}, 1000, 0, {{0, 1}}}};
  plan.roles = {{{}, {{Time{}}}, {{0}}}};
  plan.program = std::make_shared<Program>(b.finish());
  EXPECT_EQ(find_contention(plan).who, "load (copy lane of 2 instances of worker) share pcie0");
  const Trace t = evaluate(plan, {.iterations = 1});
  EXPECT_EQ(t.evaluator, "sweep");
  EXPECT_THAT(t.reason, testing::HasSubstr("load (copy lane of 2 instances of worker) share pcie0"));
  EXPECT_EQ(t.makespan, Time{2'000'000});  // half the rate each
  EXPECT_EQ(t.link_bytes[0], 2000);
  plan.transfers[0].cap = 0.5e9;  // now both fit
  EXPECT_EQ(find_contention(plan).who, "");
  EXPECT_EQ(evaluate(plan, {.iterations = 1}).evaluator, "folded");
  EXPECT_EQ(run_events(plan, {.iterations = 1}).makespan, Time{2'000'000});
}

TEST(Evaluate, SendsSharedLinksToEvents) {
  Builder b;  // the sum begins with the copies and needs what they take
  RoleBuilder w = b.role("worker", Mesh{{{"data", 2}}});
  w.copy(CopyKind::host_to_device, Bytes{1000}, "load");
  w.collective(CollKind::all_reduce, 1, Bytes{1000}, "ring", "sum");
  BoundProgram plan;
  plan.capacity = {1e9};
  plan.transfers = {{Time{}, 1000, 0, {{0, 1}}}, {Time{}, 1000, 0.5e9, {{0, 1}}}};
  plan.roles = {{{}, {{Time{}, Time{}}}, {{0, 1}}}};
  plan.program = std::make_shared<Program>(b.finish());
  const Trace t = evaluate(plan, {.iterations = 1});
  EXPECT_EQ(t.evaluator, "events");
  EXPECT_THAT(t.reason, testing::StartsWith("transfers can slow each other: sum (comm lane"));
  EXPECT_EQ(t.makespan, Time{3'000'000});  // a third of the rate each
}

TEST(Evaluate, SeesLanesOfOneInstanceAndGroupsThatShare) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"node", 2}, {"local", 2}}});
  w.copy(CopyKind::input, Bytes{1000}, "input");
  w.collective(CollKind::all_reduce, 2, Bytes{1000}, "ring", "reduce");
  BoundProgram plan;
  plan.capacity = {1e9, 1e9};
  plan.roles = {{{}, {{Time{}, Time{}}}, {{0, 1}}}};
  plan.transfers = {{Time{}, 1000, 0.2e9, {{0, 1}}}, {Time{}, 1000, 0.6e9, {{1, 1}}}};
  plan.program = std::make_shared<Program>(b.finish());
  EXPECT_EQ(find_contention(plan).who,
            "reduce (comm lane of 4 instances of worker) share link 1");  // two groups
  plan.transfers[1].cap = 0.5e9;
  EXPECT_EQ(find_contention(plan).who, "");
  plan.transfers[1].uses = {{0, 1}};
  EXPECT_EQ(find_contention(plan).who,
            "reduce (comm lane of 4 instances of worker) and input (copy lane of 4 instances of "
            "worker) share link 0");
}

/// More rows than run together at a time, with noise.
TEST(Sweep, ThousandsOfRowsAreTheSameWithoutTheirFingerprint) {
  BoundProgram plan = workloads::resnet50_iteration(3'001);
  plan.disturbance = {.compute_sigma = 0.02};
  const EvaluateOptions with{.iterations = 3, .kept_iterations = 2, .kept_instances = 5};
  EvaluateOptions without = with;
  without.fingerprint = false;
  Trace all = run_sweep(plan, with);
  all.fingerprint = 0;
  expect_same(run_sweep(plan, without), all, 0);
  EXPECT_EQ(all.events, 3 * 3'001 * 162);
}

TEST(Sweep, HundredThousandRanksOfResNet50) {
  const Trace wide = run_sweep(workloads::resnet50_iteration(100'000), {.iterations = 1});
  const Trace folded = evaluate(workloads::resnet50_iteration(100'000), {.iterations = 1});
  expect_same(wide, folded, 0);
  EXPECT_EQ(wide.events, 16'200'000);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Workers that take turns on fewer processors than there are of them.
#include "sim/evaluate/core_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/evaluate/events.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

using sim::CoreTurns;
using sim::SharedCores;
using workloads::parameter_server;

/// Who is done when, of instances that each want so much work at 0; and who is looked at where.
std::vector<std::pair<uint32_t, int64_t>> ends(const SharedCores& shared, const std::vector<int64_t>& work) {
  CoreTurns turns(shared, static_cast<uint32_t>(work.size()), 1);
  for (uint32_t i = 0; i < work.size(); ++i) turns.want(i, work[i], 0);
  std::vector<std::pair<uint32_t, int64_t>> out;
  while (out.size() < work.size()) {
    uint32_t core = 0;
    for (uint32_t c = 1; c < shared.cores; ++c) core = turns.next(c) < turns.next(core) ? c : core;
    const int64_t now = turns.next(core);
    if (now == kNever) break;
    const uint32_t done = turns.look(core, now);
    if (done == CoreTurns::kNobody) continue;
    out.emplace_back(done, now);
    turns.leave(done, now);
  }
  return out;
}

TEST(CoreTurns, GoRoundByRound) {
  const SharedCores one{1, {Time{10}}, false};
  using Ends = std::vector<std::pair<uint32_t, int64_t>>;
  EXPECT_EQ(ends(one, {25, 25}), (Ends{{0, 45}, {1, 50}}));
  EXPECT_EQ(ends(one, {10, 25}), (Ends{{0, 10}, {1, 35}})) << "work that ends with its turn";
  EXPECT_EQ(ends(one, {5, 25, 12}), (Ends{{0, 5}, {2, 32}, {1, 42}})) << "who waits gives the rest away";
  EXPECT_EQ(ends(one, {70}), (Ends{{0, 70}})) << "nobody else wants it";
  EXPECT_EQ(ends(one, {0, 0}), (Ends{{0, 0}, {1, 0}}));
  EXPECT_EQ(ends({2, {Time{10}}, false}, {25, 30, 25}), (Ends{{1, 30}, {0, 45}, {2, 50}}))
      << "instance 1 has the second processor to itself";
}

/// A turn ends by the processor's clock, whoever got it in between, but not at once for who just did.
TEST(CoreTurns, EndByTheClock) {
  const auto second_done = [](int64_t first_waits_after) {
    const SharedCores one{1, {Time{10}}, false, Time{3}};
    CoreTurns turns(one, 2, 1);
    turns.want(0, first_waits_after, 0);
    turns.want(1, 20, 0);
    EXPECT_EQ(turns.look(0, turns.next(0)), 0U);
    turns.leave(0, first_waits_after);
    turns.want(0, 4, first_waits_after + 1);  // comes back while the other works
    EXPECT_EQ(turns.look(0, turns.next(0)), CoreTurns::kNobody) << "a turn ends";
    EXPECT_EQ(turns.turn_end(0, turns.next(0)) % 10, 0);
    return turns.next(0);  // when the first, which has it now, is done
  };
  EXPECT_EQ(second_done(4), 10 + 4) << "the second had it for 6";
  EXPECT_EQ(second_done(7), 10 + 4) << "for 3, the least";
  EXPECT_EQ(second_done(8), 20 + 4) << "2 are too few: it has the next turn, too";
}

/// Processors work all the time, whatever the turns: all together take as long as the work in them.
TEST(CoreTurns, LoseNothing) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SharedCores shared{2, {}, false};
    for (uint64_t i = 0; i < 1 + seed % 7; ++i)
      shared.turns.push_back(Time{static_cast<int64_t>(1 + seed * i % 13)});
    std::vector<int64_t> work(6), sum(2);
    for (std::size_t i = 0; i < work.size(); ++i)
      sum[i % 2] += work[i] = static_cast<int64_t>(seed * (i + 3) % 41);
    std::vector<int64_t> last(2);
    for (const auto& [who, when] : ends(shared, work)) last[who % 2] = std::max(last[who % 2], when);
    EXPECT_EQ(last, sum) << seed;
  }
}

/// Turns of a fifth of a step share evenly: each finds the others a step further. In turns of five steps most
/// gradients come right behind another of the same worker's, on a version that only the other processor's
/// workers have changed, and the one that was under way when the turn ended is very stale. The mean is the
/// same. Steps that all take equally long end together, and whoever finds the server busy lets another go on:
/// then they share almost evenly whatever the turns.
TEST(CoreTurns, ShapeStaleness) {
  BoundProgram plan = parameter_server({.workers = 4});
  const Time step = plan.roles[0].duration[0][0];
  const auto run = [&](double turn, double sigma) {
    plan.disturbance.iteration_sigma = sigma;
    plan.disturbance.shared = {
        2, {scaled(step, turn), scaled(step, 1.3 * turn), scaled(step, 0.8 * turn)}, true};
    return run_events(plan, {.iterations = 500});
  };
  const auto above = [](const Trace& t, int64_t least) {
    double sum = 0;
    for (const auto& bin : t.staleness.bins()) sum += bin.value >= least ? static_cast<double>(bin.count) : 0;
    return sum / static_cast<double>(t.staleness.count());
  };
  const Trace even = run(0.2, 0.05), shared = run(5, 0.05), equal = run(5, 0);
  for (const Trace* t : {&even, &shared, &equal}) EXPECT_NEAR(t->staleness.mean(), 3, 0.1);
  EXPECT_LT(above(even, 7), 0.01);
  EXPECT_GT(above(shared, 7), 0.15);
  EXPECT_LT(above(shared, 7), 0.25);
  EXPECT_LT(above(equal, 7), 0.02);
}

}  // namespace
}  // namespace tandem::tests

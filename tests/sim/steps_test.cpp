// SPDX-License-Identifier: Apache-2.0
#include "sim/network/steps.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/sweep.h"

#include <gtest/gtest.h>

#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

StepRun ring(uint32_t ranks) {
  const double bytes = static_cast<double>(static_cast<int64_t>(workloads::kRingBytes) / ranks);
  const int64_t step = picoseconds(bytes / workloads::kRingBandwidth) + workloads::kRingLatency;
  return run_steps(
      ranks, 2 * (ranks - 1), [&](uint32_t r, uint32_t) { return (r + 1) % ranks; },
      [&](uint32_t, uint32_t) { return step; });
}

TEST(Steps, RingAllReduceOnAStarTakesThePublishedTime) {
  EXPECT_NEAR(Time{ring(8).makespan}.seconds(), 0.003677016, 0.51e-9);
  EXPECT_NEAR(Time{ring(64).makespan}.seconds(), 0.004191768, 0.51e-9);
  EXPECT_NEAR(Time{ring(256).makespan}.seconds(), 0.004432920, 0.51e-9);
  EXPECT_NEAR(Time{ring(1024).makespan}.seconds(), 0.005213208, 0.51e-9);
  EXPECT_EQ(ring(64).messages, 64 * 126);
}

TEST(Steps, OneOpCostsWhatTheMessagesTake) {
  for (const int32_t ranks : {2, 8, 64}) {
    const auto transfer = workloads::ring_transfer(ranks, workloads::kRingBytes);
    const auto plan = workloads::single_collective({{"data", ranks}}, transfer);
    EXPECT_NEAR(static_cast<double>(run_events(plan, {.iterations = 1}).makespan.ps),
                static_cast<double>(ring(static_cast<uint32_t>(ranks)).makespan), 1e-9 * 4e9);
  }
}

TEST(Steps, AProgramOfEveryMessageTakesWhatTheMessagesTake) {
  for (const int32_t ranks : {2, 8, 64}) {
    const StepRun steps = ring(static_cast<uint32_t>(ranks));
    const Plan plan = workloads::ring_of_roles(ranks, workloads::kRingBytes);
    const Trace events = run_events(plan, {.iterations = 1}), swept = run_sweep(plan, {.iterations = 1});
    EXPECT_EQ(events.makespan.ps, steps.makespan);
    EXPECT_EQ(events.events, 2 * steps.messages);
    EXPECT_EQ(events.makespan.ps, swept.makespan.ps);
    EXPECT_EQ(events.fingerprint, swept.fingerprint);
    EXPECT_EQ(events.fingerprint, evaluate(plan, {.iterations = 1}).fingerprint);
    // Ranks that are alike, as one role.
    const Trace alike = evaluate(workloads::ring_program(ranks, workloads::kRingBytes), {.iterations = 1});
    EXPECT_EQ(alike.events, events.events);
    EXPECT_EQ(alike.makespan.ps, steps.makespan);
    EXPECT_EQ(alike.exposed_to(Wait::communication), alike.makespan) << "no rank waits for another";
  }
}

TEST(Steps, ASlowRankDelaysItsNeighboursStepByStep) {
  // Rank 0 needs 10 a message, the others 1: after 3 steps of a ring of 8 only ranks up to 3 away have heard.
  const auto run = run_steps(
      8, 3, [](uint32_t r, uint32_t) { return (r + 1) % 8; },
      [](uint32_t r, uint32_t) { return r == 0 ? 10 : 1; });
  EXPECT_EQ(run.makespan, 30);
  EXPECT_EQ(run.messages, 24);
}

}  // namespace
}  // namespace tandem::tests

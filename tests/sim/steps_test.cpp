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
    const BoundProgram plan = workloads::ring_of_roles(ranks, workloads::kRingBytes);
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

/// Sound, as sends go on beside receipts, but not to be swept in the order of the lists.
TEST(Steps, TwoThatReceiveFirstInTheirListsMeetAllTheSame) {
  constexpr Bytes kBytes{1000};
  Builder b;
  b.program().grid.axes = {{"rank", 2}};
  std::vector<RoleBuilder> roles;
  for (int32_t r = 0; r < 2; ++r) {
    roles.push_back(b.role("rank" + std::to_string(r), {}));
    b.program().roles.back().at = {r};
  }
  const uint32_t to[] = {b.channel(roles[0], roles[1], Address::same_index, {kBytes}),
                         b.channel(roles[1], roles[0], Address::same_index, {kBytes})};
  for (std::size_t r = 0; r < 2; ++r) {
    roles[r].recv(to[1 - r], 0, "recv").on(Lane::recv);
    roles[r].send(to[r], 0, kBytes, "send").on(Lane::send);
  }
  Transfer message;
  message.bytes = 1000;
  message.cap = 1e9;
  message.latency = Time{500'000};
  BoundProgram plan;
  plan.program = std::make_shared<Program>(b.finish());
  plan.transfers.push_back(message);
  for (std::size_t r = 0; r < 2; ++r) plan.roles.push_back({{}, {{Time{}, Time{}}}, {{-1, 0}}});
  plan.messages = std::make_shared<workloads::UniformMessages>(message, Time{});
  const Trace trace = evaluate(plan, {.iterations = 2});
  EXPECT_EQ(trace.evaluator, "events");
  EXPECT_EQ(trace.makespan.ps, 2'500'000) << "the second send leaves behind the first";
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

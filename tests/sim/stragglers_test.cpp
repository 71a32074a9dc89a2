// SPDX-License-Identifier: Apache-2.0
// Stragglers and pauses: their distributions, and what the slowest of many costs where all meet.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/sweep.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

/// Workers that compute for 10 ms in `parts` ops and then meet.
BoundProgram meeting_workers(int32_t workers, int parts = 1) {
  Builder b;
  RoleBuilder worker = b.role("worker", Mesh{{{"data", workers}}});
  OpHandle first = worker.compute({}, "work");
  OpId last = first.id();
  for (int i = 1; i < parts; ++i) last = worker.compute({}, "work").id();
  first.after_last(worker.collective(CollKind::all_reduce, 1, Bytes{4}, "ring", "meet").after(last).id());
  BoundProgram plan;
  RoleCosts costs;
  const auto count = static_cast<std::size_t>(parts) + 1;
  costs.duration = {std::vector<Time>(count, Time{10'000'000'000 / parts})};
  costs.duration[0].back() = Time{};
  costs.transfer = {std::vector<int32_t>(count, -1)};
  costs.transfer[0].back() = 0;
  plan.transfers.emplace_back();
  plan.roles.push_back(std::move(costs));
  plan.program = std::make_shared<Program>(b.finish());
  return plan;
}

double seconds_per_iteration(const Trace& t) {
  return t.makespan.seconds() / static_cast<double>(t.iteration_end.size());
}

TEST(Stragglers, AreDrawnOnceAndAsOftenAsTheirShareSays) {
  BoundProgram plan = meeting_workers(20'000);
  plan.disturbance.stragglers = {0.03, 1.5};
  int slow = 0;
  for (uint32_t i = 0; i < 20'000; ++i) {
    slow += plan.straggles(0, i) ? 1 : 0;
    for (const uint32_t iteration : {0U, 7U, 400U})
      ASSERT_EQ(plan.iteration_factor(0, i, iteration), plan.straggles(0, i) ? 1.5 : 1.0);
  }
  EXPECT_NEAR(slow, 600, 4 * std::sqrt(600 * 0.97));
}

TEST(Stragglers, TheMeanOverSeedsIsTheExpectedMaximum) {
  // Of n workers the slowest takes `slow` times as long unless none is a straggler.
  for (const int32_t n : {4, 32}) {
    BoundProgram plan = meeting_workers(n);
    plan.disturbance.stragglers = {0.02, 2};
    const int seeds = 4000;
    double sum = 0;
    for (plan.seed = 1; plan.seed <= seeds; ++plan.seed)
      sum += seconds_per_iteration(evaluate(plan, {.iterations = 2}));
    const double any = 1 - std::pow(0.98, n);
    EXPECT_NEAR(sum / seeds / 0.01, 1 + any, 4 * std::sqrt(any * (1 - any) / seeds)) << n;
  }
}

TEST(Stragglers, ServersAndHostsAreNone) {
  BoundProgram plan = workloads::parameter_server({.workers = 4});
  plan.disturbance.stragglers = {1, 2};
  EXPECT_TRUE(plan.straggles(0, 3));
  EXPECT_FALSE(plan.straggles(1, 0));
}

TEST(Pauses, OfOneDeviceAreACompoundPoissonVariable) {
  BoundProgram plan = meeting_workers(1);
  plan.disturbance.pauses = {0.02, 0.003};  // half a pause in each op
  double sum = 0, squares = 0;
  const int draws = 200'000;
  for (uint32_t i = 0; i < draws; ++i) {
    const double pause = 0.01 * (plan.op_factor(0, 0, i, 0) - 1);
    sum += pause;
    squares += pause * pause;
  }
  const double mean = sum / draws, variance = squares / draws - mean * mean;
  EXPECT_NEAR(mean, 0.5 * 0.003, 0.01 * 0.0015);
  EXPECT_NEAR(variance, 0.5 * 2 * 0.003 * 0.003, 0.03 * 0.5 * 2 * 0.003 * 0.003);
}

/// P(pauses of a work of `mean` pauses, each of exponential length 1, last at most x).
double at_most(double mean, double x) {
  double poisson = std::exp(-mean), sum = poisson;
  double erlang = 1, term = std::exp(-x);  // P(k exponentials <= x) = 1 - sum over i < k of e^-x x^i / i!
  for (int k = 1; k < 60; ++k) {
    erlang -= term;
    term *= x / k;
    poisson *= mean / k;
    sum += poisson * erlang;
  }
  return sum;
}

/// Of n such, the expected longest: the integral of 1 - P^n.
double expected_longest(int n, double mean) {
  const double step = 0.001;
  double sum = 0;
  for (double x = step / 2; x < 40; x += step) sum += step * (1 - std::pow(at_most(mean, x), n));
  return sum;
}

TEST(Pauses, WhereAllMeetTheStepLastsTheExpectedMaximumLonger) {
  for (const int n : {1, 8, 64}) {
    for (const double every : {0.02, 0.5}) {
      BoundProgram plan = meeting_workers(n, 4);
      plan.disturbance.pauses = {every, 0.005};
      const Trace t = evaluate(plan, {.iterations = 20'000, .fingerprint = false});
      const double longest = 0.005 * expected_longest(n, 0.01 / every);
      EXPECT_NEAR(seconds_per_iteration(t), 0.01 + longest, 0.02 * longest + 1e-5) << n << " " << every;
    }
  }
}

TEST(Pauses, OfManyInOneOpAreTheirMean) {
  BoundProgram plan = meeting_workers(1);
  plan.disturbance.pauses = {1e-6, 1e-7};
  EXPECT_DOUBLE_EQ(plan.op_factor(0, 0, 0, 0), 1.1);
}

TEST(Pauses, AreTheSameForAllEvaluators) {
  BoundProgram plan = meeting_workers(5, 3);
  plan.disturbance.pauses = {0.05, 0.01};
  plan.disturbance.stragglers = {0.3, 1.5};
  plan.disturbance.iteration_sigma = 0.1;
  for (plan.seed = 1; plan.seed < 50; ++plan.seed)
    ASSERT_EQ(run_sweep(plan, {}).fingerprint, run_events(plan, {}).fingerprint) << plan.seed;
}

}  // namespace
}  // namespace tandem::tests

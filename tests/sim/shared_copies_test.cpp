// SPDX-License-Identifier: Apache-2.0
// Copies that share links, timed together in a sweep: the events' times, or the events themselves.
#include "sim/evaluate/shared_copies.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/sweep.h"
#include "tests/sim/prediction.h"
#include "tests/sim/random_plan.h"
#include "tests/sim/same_trace.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

/// A random plan, whose copies pass links of their node besides their own, and whose sums may pass them too.
BoundProgram crowded(uint64_t seed) {
  SplitMix64 random(seed);
  BoundProgram plan = workloads::RandomPlan(seed, {.noisy = random.next() % 2 == 0, .links = true}).make();
  const auto first = static_cast<uint32_t>(plan.capacity.size());
  const uint64_t nodes = 1 + random.next() % 3;
  for (uint64_t n = 0; n < nodes; ++n)
    plan.capacity.push_back(1e8 + static_cast<double>(random.next() % 2'000'000'000));
  const bool sums_pass = random.next() % 2 == 0;
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    const RoleCosts& costs = plan.roles[r];
    for (std::size_t c = 0; c < costs.transfer.size(); ++c) {
      for (std::size_t o = 0; o < costs.transfer[c].size(); ++o) {
        const Op& op = std::as_const(plan.program->roles[r].ops)[o];
        const bool passes = op.kind == OpKind::copy || (op.kind == OpKind::collective && sums_pass);
        if (!passes || costs.transfer[c][o] < 0) continue;
        const auto link = first + static_cast<uint32_t>(c % nodes);
        plan.transfers[static_cast<std::size_t>(costs.transfer[c][o])].uses.push_back(
            {link, op.kind == OpKind::copy ? 1.0F : 0.1F});
      }
    }
  }
  return plan;
}

TEST(SharedCopies, TakeTheTimesOfEvents) {
  int swept = 0, by_events = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const BoundProgram plan = crowded(seed);
    const Contention found = find_contention(plan);
    if (found.copies.empty()) continue;
    const EvaluateOptions options{.iterations = 6};
    const auto together = run_sweep(plan, options, found.copies);
    (together ? swept : by_events) += 1;
    const Trace events = run_events(plan, options);
    if (together) expect_same(*together, events, seed);
    expect_same(evaluate(plan, options), events, seed);
  }
  EXPECT_GT(swept, 50);
  EXPECT_GT(by_events, 50);
}

/// Two workers of a node copy at half the rate of its storage each: at 4 of the 10 of their own links, while
/// a sum takes its part of those.
BoundProgram border(double sum) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 2}}});
  const OpId in = w.input(CopyKind::input, 1, Bytes{100}, "input");
  w.collective(CollKind::all_reduce, 1, Bytes{1000}, "ring", "sum").after_last(in);
  BoundProgram plan;
  plan.capacity = {8, 10, 10};
  plan.transfers = {{Time{}, 100, 0, {{0, 1}, {1, 1}}},
                    {Time{}, 100, 0, {{0, 1}, {2, 1}}},
                    {Time{}, 100, sum, {{1, 1}, {2, 1}}}};
  plan.roles = {{{0, 1}, {{Time{}, Time{}}, {Time{}, Time{}}}, {{0, 2}, {1, 2}}}};
  plan.program = std::make_shared<Program>(b.finish());
  return plan;
}

TEST(SharedCopies, LeaveToEventsWhatOthersNeed) {
  const EvaluateOptions options{.iterations = 3};
  for (const double sum : {5.0, 6.0, 6.001, 7.0, 9.0}) {
    const BoundProgram plan = border(sum);
    const Trace t = evaluate(plan, options);
    EXPECT_EQ(t.evaluator, sum <= 6 ? "sweep" : "events") << sum;
    expect_same(t, run_events(plan, options), static_cast<uint64_t>(sum));
  }
}

TEST(SharedCopies, AreWhatRealInputIsInNodesOfSeveralDevices) {
  static const Graph graph = Graph::load("resnet50");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  const auto predict = [&](bool input, const System::Sets& sets) {
    const System machine = System::load("dgx-h100", sets);
    // Of a batch whose copies leave links to others at every time; where they do not, events decide.
    Request p = prediction_of(graph, machine, scheme, 32, 64);
    p.job.input = input;
    return simulate(p);
  };
  const Report hidden = predict(true, {{"nodes", "4"}}), none = predict(false, {{"nodes", "4"}});
  const Report decoding = predict(true, {{"nodes", "4"}, {"host.cores", "4"}});
  EXPECT_EQ(hidden.evaluation.evaluator, "sweep");
  EXPECT_NEAR(hidden.rate.samples_per_second, none.rate.samples_per_second,
              1e-9 * none.rate.samples_per_second);
  EXPECT_EQ(hidden.time.share.input, 0) << "the first batch is waited for once in a training";
  EXPECT_EQ(decoding.evaluation.evaluator, "sweep");
  EXPECT_GT(decoding.time.share.input, 0.4);
  EXPECT_LT(decoding.rate.samples_per_second, 0.5 * none.rate.samples_per_second);
}

}  // namespace
}  // namespace tandem::tests

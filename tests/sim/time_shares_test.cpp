// SPDX-License-Identifier: Apache-2.0
// Where worker 0's time goes: plans small enough that every share is known.
#include "sim/time_shares.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/sweep.h"

#include <gtest/gtest.h>

#include "models/graph.h"
#include "models/optimizer.h"
#include "schemes/setup/scheme.h"
#include "tests/sim/prediction.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

using workloads::parameter_server;
using workloads::ServerSetting;

constexpr int64_t kUs = 1'000'000;
constexpr int32_t kIterations = 8;

Time exposed(const Trace& t, Wait wait) { return t.exposed_to(wait); }

/// Three workers that compute for 10, 30 and 20 us, then sum for 5 us, in the way of the next step.
BoundProgram uneven_workers() {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 3}}});
  OpHandle step = w.compute({}, "step");
  step.after_last(w.collective(CollKind::all_reduce, 1, Bytes{9}, "ring", "reduce").after(step));
  BoundProgram plan;
  plan.transfers = {{Time{5 * kUs}, 0, 0, {}}};
  plan.roles = {{{0, 1, 2},
                 {{Time{10 * kUs}, Time{}}, {Time{30 * kUs}, Time{}}, {Time{20 * kUs}, Time{}}},
                 {{-1, 0}, {-1, 0}, {-1, 0}}}};
  plan.program = std::make_shared<Program>(b.finish());
  return plan;
}

TEST(TimeShares, AFastWorkerWaitsForTheSlowestBeforeItCommunicates) {
  for (const Trace& t : {run_events(uneven_workers(), {.iterations = kIterations}),
                         run_sweep(uneven_workers(), {.iterations = kIterations})}) {
    SCOPED_TRACE(t.evaluator);
    EXPECT_EQ(t.busy[0], Time{10 * kUs * kIterations});
    EXPECT_EQ(exposed(t, Wait::waiting), Time{20 * kUs * kIterations});
    EXPECT_EQ(exposed(t, Wait::communication), Time{5 * kUs * kIterations});
    EXPECT_EQ(t.moved[static_cast<int>(CollKind::all_reduce)], Time{5 * kUs * kIterations});
    ASSERT_EQ(t.awaited.size(), 1u);
    EXPECT_EQ(t.awaited.begin()->first, 1u);
    const Span& reduce = t.spans[1];
    EXPECT_EQ(reduce.start - reduce.ready, Time{20 * kUs});
    EXPECT_EQ(reduce.last, 1u);
  }
}

/// Worker 0's second sum cannot begin before its first has ended, for which it waited: all in one gap.
TEST(TimeShares, FollowTheChainOfCollectivesBackToItsCause) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 2}}});
  OpHandle step = w.compute({}, "step");
  w.collective(CollKind::reduce_scatter, 1, Bytes{9}, "ring", "scatter").after(step);
  step.after_last(w.collective(CollKind::all_gather, 1, Bytes{9}, "ring", "gather").after(step));
  BoundProgram plan;
  plan.transfers = {{Time{3 * kUs}, 0, 0, {}}, {Time{4 * kUs}, 0, 0, {}}};
  plan.roles = {{{0, 1},
                 {{Time{10 * kUs}, Time{}, Time{}}, {Time{12 * kUs}, Time{}, Time{}}},
                 {{-1, 0, 1}, {-1, 0, 1}}}};
  plan.program = std::make_shared<Program>(b.finish());
  const Trace t = run_events(plan, {.iterations = kIterations});
  EXPECT_EQ(exposed(t, Wait::waiting), Time{2 * kUs * kIterations});
  EXPECT_EQ(t.moved[static_cast<int>(CollKind::reduce_scatter)], Time{3 * kUs * kIterations});
  EXPECT_EQ(t.moved[static_cast<int>(CollKind::all_gather)], Time{4 * kUs * kIterations});
}

TEST(TimeShares, AServerThatAppliesBackToBackIsNoCommunication) {
  ServerSetting s{.workers = 4, .compute = Time{kUs}, .apply = Time{2 * kUs}};
  const Trace t = run_events(parameter_server(s), {.iterations = 100});
  // A round is four applies, 8 us, of which a worker computes for one; messages take no time.
  EXPECT_EQ(exposed(t, Wait::communication), Time{});
  EXPECT_NEAR(exposed(t, Wait::server).seconds() / t.makespan.seconds(), 7.0 / 8, 0.02);
}

TEST(TimeShares, AGateWaitsForTheWorkerThatOpensIt) {
  ServerSetting s{.workers = 4, .gate = true, .compute = Time{kUs}};
  s.store.batch = s.store.quorum = 4;
  s.message = {Time{kUs}, 0, 0, {}};
  BoundProgram plan = parameter_server(s);
  plan.disturbance.slow = {{3, 6.0}};
  const Trace t = run_events(plan, {.iterations = kIterations});
  // 1 us of compute, 1 us to the server, 4 us until worker 3 sends, 1 us until that is there, 1 us back.
  EXPECT_EQ(t.makespan, Time{8 * kUs * kIterations});
  EXPECT_EQ(exposed(t, Wait::waiting), Time{4 * kUs * kIterations});
  EXPECT_EQ(t.awaited.at(3), Time{4 * kUs * kIterations});
  EXPECT_EQ(t.moved[kMovePush], Time{2 * kUs * kIterations});
  EXPECT_EQ(t.moved[kMovePull], Time{kUs * kIterations});
}

TEST(TimeShares, OfAPredictionNameTheSlowCardAndAddUpToOne) {
  const System system =
      System::load("workstation-2x", {{"devices.gpu[0-1].model", "gtx-1080-ti"}, {"faults.gpu1", "0.3"}});
  const Graph graph = Graph::load("resnet50");
  for (const char* name : {"allreduce", "parameter-server:mode=sync"}) {
    const ResolvedScheme scheme = resolve_scheme(name, Place{});
    Request p = prediction_of(graph, system, scheme, 2, 16);
    const Report r = simulate(p);
    const TimeShare& s = r.time.share;
    EXPECT_GT(s.waiting, 0.5) << name;
    EXPECT_LT(s.exposed_communication, 0.3) << name;
    EXPECT_NEAR(
        s.compute + s.launch + s.exposed_communication + s.waiting + s.bubble + s.input + s.server + s.idle,
        1, 1e-12)
        << name;
    ASSERT_FALSE(r.time.waiting_for.empty()) << name;
    EXPECT_EQ(r.time.waiting_for[0].first, "worker 1 on gpu1") << name;
    double moved = 0;
    for (const auto& [kind, share] : r.time.communication_kinds) moved += share;
    EXPECT_NEAR(moved, s.exposed_communication, 1e-12) << name;
    EXPECT_EQ(r.bottleneck.resource, "waiting") << name;
  }
}

}  // namespace
}  // namespace tandem::tests

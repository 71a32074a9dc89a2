// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/gather.h"

#include <gtest/gtest.h>

#include "schemes/program/builder.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

/// One worker of two whose gradients get ready at the given milliseconds and are reduced one by one: each
/// takes `start_up` and a millisecond per thousand bytes.
BoundProgram plan(const std::vector<int>& ready, const std::vector<int64_t>& bytes, double start_up) {
  Builder b;
  RoleBuilder w = b.role("worker", {{{"device", 2}}});
  BoundProgram out;
  RoleCosts costs;
  costs.duration.emplace_back();
  costs.transfer.emplace_back();
  int now = 0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const uint32_t key = b.bucket(bytes[i] / 4);
    const OpId gradient = w.compute({}, "backward");
    w.collective(CollKind::all_reduce, 1, {bytes[i]}, "auto", "sum")
        .of(Payload::gradients, key)
        .after(gradient);
    costs.duration[0].push_back(Time::from_seconds((ready[i] - now) * 1e-3));
    costs.duration[0].push_back({});
    costs.transfer[0].push_back(-1);
    costs.transfer[0].push_back(static_cast<int32_t>(i));
    Transfer t;
    t.latency = Time::from_seconds(start_up);
    t.bytes = static_cast<double>(bytes[i]);
    t.cap = 1e6;
    out.transfers.push_back(t);
    now = ready[i];
  }
  b.samples_per_iteration(1);
  out.program = std::make_shared<const Program>(b.finish());
  out.roles.push_back(costs);
  return out;
}

using Elements = std::vector<int64_t>;

TEST(Gather, ACycleTakesWhatGotReadySinceTheLast) {
  Overheads o;
  o.cycle = Time::from_seconds(5e-3);
  // The last look is at 22.5 ms, so the others are at 2.5, 7.5, 12.5 and 17.5.
  const BoundProgram p = plan({1, 3, 7, 8, 16, 20}, {400, 400, 400, 400, 400, 400}, 0);
  EXPECT_EQ(gather(p, o, {1 << 20}), (Elements{100, 200, 100, 100, 100}));
  EXPECT_EQ(gather(p, o, {400}), (Elements{100, 100, 100, 100, 100, 100}));
  o.cycle = Time::from_seconds(1);
  EXPECT_EQ(gather(p, o, {1 << 20}), (Elements{600}));
}

TEST(Gather, MergesWhatCannotStartOrWouldSaveLessThanAStartUp) {
  Overheads o;
  o.merge = true;
  // The first takes 2 + 4 ms from 1 on: the second is ready at 2, within a start-up, and joins it. Both take
  // 2 + 8 ms from 2 on: the third, ready at 9, would make them wait for 7 and goes alone, from 12 on; the
  // fourth is ready before that.
  const BoundProgram p = plan({1, 2, 9, 11}, {4000, 4000, 4000, 4000}, 2e-3);
  EXPECT_EQ(gather(p, o, {1 << 20}), (Elements{2000, 2000}));
  // Start-ups that cost nothing leave only what could not start anyway.
  EXPECT_EQ(gather(plan({1, 2, 9, 11}, {4000, 4000, 4000, 4000}, 0), o, {1 << 20}),
            (Elements{1000, 1000, 1000, 1000}));
}

Report predicted(const std::string& scheme, const std::function<void(Overheads&)>& change) {
  static const Graph graph = Graph::load("resnet50");
  static const System system = System::load("hkbu-rdma");
  ResolvedScheme resolved = resolve_scheme(scheme, {});
  change(resolved.overheads);
  Request p = prediction_of(graph, system, resolved, 8);
  p.disturbance = Disturbance{};
  return simulate(p);
}

TEST(Gather, ALongerCycleMakesFewerReductionsAndLeavesHalfOfItToWait) {
  const auto step = [](const std::string& scheme, double cycle) {
    return predicted(scheme, [&](Overheads& o) { o.cycle = Time::from_seconds(cycle); }).iteration.median;
  };
  // Without overlap all gradients are ready at once and travel as one, whatever the cycle.
  const std::string together = "horovod:overlap=off,bucket=1GiB";
  EXPECT_NEAR(step(together, 20e-3) - step(together, 10e-3), 5e-3, 1e-6);
}

}  // namespace
}  // namespace tandem::tests

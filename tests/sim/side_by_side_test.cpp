// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/side_by_side.h"

#include <gtest/gtest.h>

#include "models/graph.h"
#include "models/optimizer.h"
#include "schemes/setup/scheme.h"
#include "sim/evaluate/evaluate.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

/// One worker that moves `megabytes` over the link each iteration and does nothing else.
BoundProgram mover(double megabytes, double link, const std::string& name) {
  Program p;
  p.labels = {"move"};
  p.copies = {{CopyKind::host_to_device, 0}};
  Op op;
  op.kind = OpKind::copy;
  op.lane = Lane::copy;
  op.bytes = {static_cast<int64_t>(megabytes * 1e6)};
  p.roles = {{"worker", {{{"data", 1}}}, Site::accelerators, -1, {op}}};
  p.samples_per_iteration = 1;
  BoundProgram plan;
  plan.program = std::make_shared<const Program>(p);
  plan.capacity = {link};
  Transfer t;
  t.bytes = megabytes * 1e6;
  t.uses = {{0, 1}};
  plan.transfers = {t};
  plan.roles = {{{}, {{Time{}}}, {{0}}}};
  plan.name_link = [name](uint32_t) { return name; };
  return plan;
}

Time makespan(const BoundProgram& plan) {
  EvaluateOptions options;
  options.iterations = 6;
  return evaluate(plan, options).makespan;
}

TEST(SideBySide, TwoThatMoveOverOneLinkGetHalfEach) {
  const BoundProgram one = mover(100, 1e9, "link");
  EXPECT_EQ(makespan(one).ps, 600'000'000'000);
  EXPECT_EQ(makespan(side_by_side(one, {one})).ps, 1'200'000'000'000);
  EXPECT_EQ(makespan(side_by_side(one, {one, one})).ps, 1'800'000'000'000);
}

TEST(SideBySide, AShortJobRepeatsAsLongAsTheOtherRuns) {
  // However small its transfers, one is always on its way: half of the link is the other's.
  EXPECT_EQ(makespan(side_by_side(mover(100, 1e9, "link"), {mover(10, 1e9, "link")})).ps, 1'200'000'000'000);
}

TEST(SideBySide, LinksOfDifferentNamesAreNotShared) {
  EXPECT_EQ(makespan(side_by_side(mover(100, 1e9, "a"), {mover(100, 1e9, "b")})).ps, 600'000'000'000);
}

class Jobs : public testing::Test {
 protected:
  Report predict(const std::string& scheme, int64_t devices, std::vector<JobBeside> beside,
                 const System& system) const {
    const ResolvedScheme resolved = resolve_scheme(scheme, Place{});
    // Synthetic input, since storage and the cores that decode are shared, too.
    Request p = prediction_of(graph_, system, resolved, devices);
    p.disturbance = Disturbance{};
    p.beside = std::move(beside);
    return simulate(p);
  }
  /// The same model by this scheme, on so many devices.
  std::vector<JobBeside> with(const ResolvedScheme& scheme, int64_t devices) const {
    return {{{.graph = &graph_, .scheme = &scheme, .optimizer = &optimizer("momentum"), .input = false},
             devices}};
  }
  Graph graph_ = Graph::load("alexnet");
  ResolvedScheme allreduce_ = resolve_scheme("allreduce", Place{});
  ResolvedScheme async_ = resolve_scheme("parameter-server:mode=async", Place{});
};

TEST_F(Jobs, OnLinksOfTheirOwnDoNotSlowEachOther) {
  const System system = System::load("v100-pcie-8x");
  for (const char* scheme : {"allreduce", "parameter-server:mode=async,server=gpu"}) {
    const Report alone = predict(scheme, 4, {}, system);
    const Report beside = predict(scheme, 4, with(allreduce_, 4), system);
    EXPECT_NEAR(beside.rate.samples_per_second / alone.rate.samples_per_second, 1, 1e-9) << scheme;
    EXPECT_EQ(beside.staleness.all.count(), alone.staleness.all.count()) << scheme;
  }
}

TEST_F(Jobs, ThatShareLinksSlowEachOther) {
  const System system = System::load("v100-pcie-8x");
  const double alone = predict("allreduce", 3, {}, system).rate.samples_per_second;
  const double beside = predict("allreduce", 3, with(allreduce_, 4), system).rate.samples_per_second;
  EXPECT_LT(beside, 0.95 * alone) << "the third and the fourth device share a switch";
  const double servers = predict("allreduce", 3, with(async_, 4), system).rate.samples_per_second;
  EXPECT_LT(servers, 0.97 * alone);
}

TEST_F(Jobs, AreAllAnsweredWithWhatEachHasAlone) {
  const System system = System::load("v100-pcie-8x");
  const Report three = predict("allreduce", 3, with(allreduce_, 4), system);
  ASSERT_EQ(three.rate.side_by_side.size(), 2U);
  EXPECT_EQ(three.rate.side_by_side[0].shared, three.rate.samples_per_second);
  EXPECT_EQ(three.rate.side_by_side[0].alone, predict("allreduce", 3, {}, system).rate.samples_per_second);
  EXPECT_EQ(three.rate.side_by_side[1].devices, 4);
  EXPECT_LT(three.rate.side_by_side[1].shared, 0.99 * three.rate.side_by_side[1].alone);
  // Two alike on halves of a box that is the same from either side.
  const Report same = predict("allreduce", 4, with(allreduce_, 4), system);
  EXPECT_DOUBLE_EQ(same.rate.side_by_side[1].shared, same.rate.samples_per_second);
  EXPECT_TRUE(predict("allreduce", 3, {}, system).rate.side_by_side.empty());
}

TEST_F(Jobs, HaveServersOfTheirOwn) {
  // The servers' cores are not shared: only the links on the way to them are.
  const System system = System::load("v100-pcie-8x", {{"links.pcie.bandwidth", "400GB/s"}});
  const double alone =
      predict("parameter-server:mode=async,server=gpu", 4, {}, system).rate.samples_per_second;
  const Graph large = Graph::load("vgg16");
  const ResolvedScheme servers = resolve_scheme("parameter-server:mode=async,server=gpu", Place{});
  const JobBeside beside{
      {.graph = &large, .scheme = &servers, .batch = 8, .optimizer = &optimizer("adamw"), .input = false}, 4};
  const Report both = predict("parameter-server:mode=async,server=gpu", 4, {beside}, system);
  EXPECT_NEAR(both.rate.samples_per_second / alone, 1, 1e-3);
}

TEST_F(Jobs, AreRefusedWhereThereIsNoRoom) {
  const System system = System::load("v100-pcie-8x");
  EXPECT_THROW(predict("allreduce", 6, with(allreduce_, 3), system), InputError);
}

TEST_F(Jobs, ASlowDeviceSlowsAllOfItsJobAndIsNamed) {
  const System whole = System::load("dgx1-v100"), hurt = System::load("dgx1-v100", {{"faults.gpu2", "0.5"}});
  const Report before = predict("allreduce", 4, {}, whole), after = predict("allreduce", 4, {}, hurt);
  EXPECT_LT(after.rate.samples_per_second, 0.7 * before.rate.samples_per_second);
  ASSERT_FALSE(after.time.waiting_for.empty());
  EXPECT_EQ(after.time.waiting_for[0].first, "worker 2 on gpu2");
  EXPECT_GT(after.time.waiting_for[0].second, 0.2);
  EXPECT_EQ(predict("allreduce", 2, {}, hurt).rate.samples_per_second,
            predict("allreduce", 2, {}, whole).rate.samples_per_second)
      << "two devices leave the slow one out";
}

}  // namespace
}  // namespace tandem::tests

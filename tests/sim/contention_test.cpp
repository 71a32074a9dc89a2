// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/contention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/network/queues.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

using sim::find_contention;
using testing::HasSubstr;

/// Workers that copy in and out on one lane, and a plan that gives each of them transfers of its own.
BoundProgram copies(int32_t workers, const std::vector<std::vector<Transfer>>& of_worker,
                    std::vector<double> capacity) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", workers}}});
  for (std::size_t o = 0; o < of_worker[0].size(); ++o)
    w.copy(CopyKind::host_to_device, Bytes{1000}, "copy " + std::to_string(o));
  BoundProgram plan;
  RoleCosts costs;
  for (const auto& transfers : of_worker) {
    costs.duration.emplace_back(transfers.size());
    costs.transfer.emplace_back();
    for (const Transfer& t : transfers) {
      costs.transfer.back().push_back(static_cast<int32_t>(plan.transfers.size()));
      plan.transfers.push_back(t);
    }
  }
  for (uint32_t i = 0; of_worker.size() > 1 && i < of_worker.size(); ++i) costs.class_of.push_back(i);
  plan.roles = {costs};
  plan.capacity = std::move(capacity);
  plan.program = std::make_shared<Program>(b.finish());
  return plan;
}

Transfer over(std::vector<Use> uses, double cap) { return {Time{}, 1000, cap, std::move(uses)}; }

TEST(Contention, IsMoreThanALinkHas) {
  // Two at 4 of 10 fit, three do not: exactly full is no contention.
  EXPECT_EQ(find_contention(copies(2, {{over({{0, 1}}, 4)}}, {10})).who, "");
  EXPECT_EQ(find_contention(copies(2, {{over({{0, 1}}, 5)}}, {10})).who, "");
  EXPECT_THAT(find_contention(copies(3, {{over({{0, 1}}, 4)}}, {10})).who,
              HasSubstr("copy 0 (copy lane of 3 instances of worker) share link 0"));
  EXPECT_THAT(find_contention(copies(2, {{over({{0, 2}}, 4)}}, {10})).who, HasSubstr("link 0"))
      << "each byte counts twice";
  EXPECT_EQ(find_contention(copies(2, {{over({{0, 0.5F}}, 9)}}, {10})).who, "");
  EXPECT_EQ(find_contention(copies(3, {{over({{0, 0}}, 9)}}, {10})).who, "");
}

TEST(Contention, ALaneMakesOneTransferAtATime) {
  // Of one worker's copies the largest counts, and it is named; of two workers both.
  const Transfer small = over({{0, 1}}, 3), large = over({{0, 1}}, 6);
  EXPECT_EQ(find_contention(copies(1, {{small, large}}, {6})).who, "");
  EXPECT_THAT(find_contention(copies(2, {{small, large}}, {11})).who,
              HasSubstr("copy 1 (copy lane of 2 instances"));
  EXPECT_THAT(find_contention(copies(2, {{large, small}}, {11})).who,
              HasSubstr("copy 0 (copy lane of 2 instances"));
}

/// The same rate over other links, or the same links at another rate or weight, is another transfer.
TEST(Contention, TransfersAreTheSameByRateAndUsesOnly) {
  const auto joined = [](const Transfer& a, const Transfer& b) {
    return find_contention(copies(2, {{a}, {b}}, {10, 10, 10})).who;
  };
  EXPECT_EQ(joined(over({{0, 1}}, 6), over({{1, 1}}, 6)), "");
  EXPECT_THAT(joined(over({{0, 1}}, 6), over({{0, 1}}, 6)), HasSubstr("2 instances of worker"));
  EXPECT_EQ(joined(over({{0, 1}}, 6), over({{0, 1}}, 4)), "");
  EXPECT_THAT(joined(over({{0, 1}}, 4), over({{0, 1}}, 6.5)), HasSubstr("link 0"));
  EXPECT_EQ(joined(over({{0, 1}}, 6), over({{0, 0.5F}}, 6)), "");
  EXPECT_THAT(joined(over({{0, 0.5F}}, 6), over({{0, 1.5F}}, 6)), HasSubstr("link 0"));
  EXPECT_EQ(joined(over({{0, 1}, {1, 1}}, 6), over({{2, 1}}, 6)), "");
  EXPECT_THAT(joined(over({{0, 1}, {1, 1}}, 6), over({{1, 1}, {2, 1}}, 6)), HasSubstr("link 1"));
}

TEST(Contention, RolesAndLanesAddUp) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 2}, {"model", 2}}});
  w.copy(CopyKind::host_to_device, Bytes{1000}, "in");
  w.collective(CollKind::all_reduce, 1, Bytes{1000}, "ring", "sum");
  w.collective(CollKind::all_reduce, 3, Bytes{1000}, "ring", "all");
  BoundProgram plan;
  plan.program = std::make_shared<Program>(b.finish());
  plan.roles = {{{}, {std::vector<Time>(3)}, {{0, 1, 2}}}};
  plan.transfers = {over({{0, 1}}, 1), over({{0, 1}}, 6), over({{0, 1}}, 8)};
  // Copies take 4 x 1. A member's share of its sums is 6 / 2 or 8 / 4, of which the larger counts: 4 x 3.
  plan.capacity = {16};
  EXPECT_EQ(find_contention(plan).who, "");
  plan.capacity = {15.9};
  EXPECT_EQ(
      find_contention(plan).who,
      "sum (comm lane of 4 instances of worker) and in (copy lane of 4 instances of worker) share link 0");
  plan.roles[0].transfer[0][0] = -1;
  EXPECT_EQ(find_contention(plan).who, "");
}

TEST(Contention, PairsThatShareFairlyDependOnWhoWaits) {
  const auto pairs = [](Store store) {
    workloads::ServerSetting s{.workers = 8};
    s.store = store;
    return sim::sharing_pairs(*workloads::parameter_server(s).program);
  };
  EXPECT_EQ(pairs({.batch = 8, .quorum = 8}), sim::kLockStepPairs);
  EXPECT_EQ(pairs({.batch = 5, .quorum = 5}), sim::kLockStepPairs);
  EXPECT_EQ(pairs({.batch = 4, .quorum = 4}), sim::kSharingPairs) << "half are not most";
  EXPECT_EQ(pairs({.batch = 2, .quorum = 3, .shares = 2}), sim::kLockStepPairs);
  EXPECT_EQ(pairs({.batch = 2, .quorum = 2, .shares = 2}), sim::kSharingPairs);
  EXPECT_EQ(pairs({.batch = 8, .quorum = 8, .slack = 1}), sim::kSharingPairs);
  const auto in_turn = [](int32_t workers, int32_t shards) {
    return sim::serves_in_turn(*workloads::parameter_server({.workers = workers, .shards = shards}).program);
  };
  EXPECT_FALSE(in_turn(64, 64));
  EXPECT_TRUE(in_turn(64, 65));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Lists of ops with routines read as the ops written out, one after the other.
#include <gtest/gtest.h>

#include <map>

#include "schemes/program/op_list.h"

namespace tandem::tests {
namespace {

Op op(uint32_t what, Deps deps = {}, uint16_t micro = 0) {
  Op out;
  out.what = what;
  out.deps = std::move(deps);
  out.micro = micro;
  return out;
}

bool same(const Op& a, const Op& b) {
  const auto deps = [](const Op& o) {
    std::vector<std::pair<uint32_t, uint16_t>> out;
    for (const Dep& d : o.deps) out.emplace_back(d.op, d.lag);
    return out;
  };
  return a.what == b.what && a.micro == b.micro && deps(a) == deps(b);
}

/// A lone op, three calls of a routine of two ops, another lone op between the last two.
OpList folded() {
  OpList ops;
  ops.push_back(op(7));
  ops.push_back(op(1, {{0, 0}}));
  ops.push_back(op(2, {{1, 0}, {0, 0}}));
  const uint32_t routine = ops.fold(1);
  EXPECT_EQ(ops.call(routine, 1), 3U);
  ops.depend(3, {2, 0});
  ops.push_back(op(8, {{4, 0}}));
  EXPECT_EQ(ops.call(routine, 2), 6U);
  ops.depend(6, {5, 0});
  ops.depend(1, {7, 1});  // of the iteration before
  return ops;
}

std::vector<Op> straight() {
  return {op(7),
          op(1, {{0, 0}, {7, 1}}),
          op(2, {{1, 0}, {0, 0}}),
          op(1, {{2, 0}}, 1),
          op(2, {{3, 0}}, 1),
          op(8, {{4, 0}}),
          op(1, {{5, 0}}, 2),
          op(2, {{6, 0}}, 2)};
}

void expect_straight(const OpList& ops) {
  const std::vector<Op> want = straight();
  ASSERT_EQ(ops.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same(ops[i], want[i])) << i;
}

TEST(OpList, ReadsAsTheOpsWrittenOut) {
  expect_straight(folded());
  OpList plain;
  for (const Op& o : straight()) plain.push_back(o);
  expect_straight(plain);
}

TEST(OpList, PartsCoverTheListInOrder) {
  const OpList ops = folded();
  uint32_t next = 0;
  for (const OpList::Part& part : ops.parts()) {
    EXPECT_EQ(part.first, next);
    next = part.end();
    for (uint32_t i = 0; i < part.count; ++i) {
      EXPECT_EQ(&ops.parts()[ops.part_of(part.first + i)], &part);
      EXPECT_EQ(ops.stored(part, i).what, ops[part.first + i].what);
    }
  }
  EXPECT_EQ(next, ops.size());
  EXPECT_EQ(ops.parts().size(), 5U);
  EXPECT_EQ(ops.routines().size(), 1U);
}

TEST(OpList, DistinctOpsCountAsOftenAsTheListHasThem) {
  std::map<uint32_t, int64_t> times;
  folded().each_distinct([&](const Op& o, int64_t n) { times[o.what] += n; });
  EXPECT_EQ(times, (std::map<uint32_t, int64_t>{{1, 3}, {2, 3}, {7, 1}, {8, 1}}));
}

TEST(OpList, EditingOneOpLeavesTheOthers) {
  OpList ops = folded();
  const OpList before = ops;
  expect_straight(before);
  ops[4].what = 9;
  EXPECT_TRUE(ops.routines().empty());
  EXPECT_EQ(ops[4].what, 9U);
  EXPECT_EQ(ops[2].what, 2U);  // of the same routine
  EXPECT_EQ(ops[7].what, 2U);
  expect_straight(before);
}

TEST(OpList, WhatWasReadDoesNotHideWhatIsAdded) {
  OpList ops = folded();
  ASSERT_EQ(ops[7].what, 2U);
  ops.push_back(op(5));
  ASSERT_EQ(ops.size(), 9U);
  EXPECT_EQ(ops[8].what, 5U);
  ops.depend(3, {0, 0});
  EXPECT_EQ(ops[3].deps.size(), 2U);
}

TEST(OpList, RoutinesNeitherSendNorMixMicroBatches) {
  OpList ops;
  ops.push_back(op(1));
  ops.push_back(op(2, {}, 1));
  EXPECT_THROW(ops.fold(0), std::logic_error);
  Op send = op(3);
  send.kind = OpKind::send;
  OpList other;
  other.push_back(send);
  EXPECT_THROW(other.fold(0), std::logic_error);
}

}  // namespace
}  // namespace tandem::tests

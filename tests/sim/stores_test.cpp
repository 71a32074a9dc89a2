// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/stores.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

using sim::VersionedStore;
using Messages = std::vector<uint32_t>;

Store store(int32_t batch, int32_t quorum, int32_t slack, bool drop_late = false, int32_t shares = 1) {
  Store s;
  s.batch = batch;
  s.quorum = quorum;
  s.slack = slack;
  s.drop_late = drop_late;
  s.shares = shares;
  return s;
}

TEST(Stores, EveryShardKeyAndShareHasVersionsOfItsOwn) {
  constexpr uint32_t kShards = 2, kKeys = 3, kWorkers = 4;
  VersionedStore s(store(1, 1, 0, false, 2), kShards, kKeys, kWorkers);
  uint32_t merges = 0;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (uint32_t key = 0; key < kKeys; ++key) {
      for (uint32_t share = 0; share < 2; ++share) {
        ++merges;
        for (uint32_t i = 0; i < merges; ++i) s.merge(shard, key, share);
      }
    }
  }
  uint32_t expected = 0, sum = 0;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (uint32_t key = 0; key < kKeys; ++key) {
      for (uint32_t share = 0; share < 2; ++share) {
        sum += ++expected;
        EXPECT_EQ(s.version(shard, key, share), expected);
        EXPECT_EQ(s.version(shard, key, share + 2), expected) << "workers of one share see one part";
      }
    }
  }
  EXPECT_EQ(s.versions(), sum);
}

TEST(Stores, AVersionIsMadeOfABatch) {
  VersionedStore s(store(3, 3, 0), 1, 1, 3);
  for (uint32_t i = 1; i <= 7; ++i) {
    s.merge(0, 0, i % 3);
    EXPECT_EQ(s.version(0, 0, 0), i / 3);
  }
  EXPECT_FALSE(s.late(0, 0, 0, 0)) << "nothing is dropped here";
}

TEST(Stores, AGateOpensWhenItsQuorumHasTheClock) {
  VersionedStore s(store(1, 2, 0), 1, 1, 3);
  Messages out;
  EXPECT_TRUE(s.open(0, 0, 0, 0)) << "everybody has clock 0";
  EXPECT_FALSE(s.open(0, 0, 0, 1));
  EXPECT_EQ(s.handled(0, 0, 0, 1, 0, out), 1u);
  EXPECT_FALSE(s.open(0, 0, 0, 1));
  s.park(0, 0, 0, 1, 70);
  s.park(0, 0, 0, 1, 71);
  s.park(0, 0, 0, 2, 72);
  EXPECT_EQ(s.handled(0, 0, 1, 1, 0, out), 1u);
  EXPECT_EQ(out, (Messages{70, 71})) << "in the order in which they came";
  EXPECT_TRUE(s.open(0, 0, 2, 1));
  EXPECT_FALSE(s.open(0, 0, 2, 2));
  out.clear();
  // The third worker passes clock 1 too: what lies below is forgotten, what lies above is not.
  s.handled(0, 0, 2, 1, 0, out);
  EXPECT_TRUE(s.open(0, 0, 0, 1));
  s.handled(0, 0, 2, 2, 0, out);
  EXPECT_EQ(out, Messages{});
  s.handled(0, 0, 0, 2, 0, out);
  EXPECT_EQ(out, Messages{72});
}

TEST(Stores, SlackLetsTheFastestBeSoFarAhead) {
  VersionedStore s(store(1, 2, 2), 1, 1, 2);
  Messages out;
  for (uint32_t clock = 1; clock <= 3; ++clock) s.handled(0, 0, 0, clock, 0, out);
  EXPECT_TRUE(s.open(0, 0, 0, 2));
  EXPECT_FALSE(s.open(0, 0, 0, 3)) << "the other has not reached 1";
  s.park(0, 0, 0, 3, 9);
  s.handled(0, 0, 1, 1, 0, out);
  EXPECT_EQ(out, Messages{9});
  EXPECT_TRUE(s.open(0, 0, 0, 3));
  EXPECT_FALSE(s.open(0, 0, 0, 4));
}

TEST(Stores, WhoHasEndedHoldsNobodyBack) {
  VersionedStore s(store(1, 2, 0), 1, 1, 2);
  Messages out;
  s.handled(0, 0, 0, 1, 0, out);
  s.handled(0, 0, 1, 1, 0, out);
  s.handled(0, 0, 0, 2, 0, out);
  s.park(0, 0, 0, 2, 5);
  s.leave(0, 0, 1, 1, out);
  EXPECT_EQ(out, Messages{5});
  out.clear();
  s.handled(0, 0, 0, 3, 0, out);
  EXPECT_TRUE(s.open(0, 0, 0, 3));
  // One that ended behind a clock does not count twice for those that it reached.
  VersionedStore three(store(1, 3, 0), 1, 1, 3);
  three.handled(0, 0, 0, 1, 0, out);
  three.leave(0, 0, 0, 1, out);
  three.handled(0, 0, 1, 1, 0, out);
  EXPECT_FALSE(three.open(0, 0, 1, 1));
  three.handled(0, 0, 2, 1, 0, out);
  EXPECT_TRUE(three.open(0, 0, 1, 1));
  three.handled(0, 0, 1, 2, 0, out);
  EXPECT_FALSE(three.open(0, 0, 1, 2));
  three.handled(0, 0, 2, 2, 0, out);
  EXPECT_TRUE(three.open(0, 0, 1, 2));
}

/// Backup workers: of three, two make a version.
TEST(Stores, LateGradientsMoveTheirWorkersClockBehindWhatTheyRead) {
  VersionedStore s(store(2, 2, 0, true), 1, 1, 3);
  Messages out;
  s.merge(0, 0, 0);
  EXPECT_FALSE(s.late(0, 0, 2, 0));
  s.merge(0, 0, 1);
  EXPECT_TRUE(s.late(0, 0, 2, 0)) << "the version that it read has been followed by another";
  EXPECT_FALSE(s.late(0, 0, 2, 1));
  EXPECT_EQ(s.handled(0, 0, 0, 1, 0, out), 1u);
  EXPECT_FALSE(s.open(0, 0, 0, 1));
  s.park(0, 0, 0, 1, 40);
  EXPECT_EQ(s.handled(0, 0, 1, 1, 0, out), 1u);
  EXPECT_EQ(out, Messages{40});
  out.clear();
  // A worker that read version 4 has clock 5 at once, whatever it sent before; an old one never goes back.
  EXPECT_EQ(s.handled(0, 0, 2, 2, 4, out), 5u);
  EXPECT_EQ(s.handled(0, 0, 2, 3, 1, out), 5u);
  EXPECT_FALSE(s.open(0, 0, 2, 3));
  s.park(0, 0, 2, 3, 41);
  s.park(0, 0, 2, 5, 42);
  EXPECT_EQ(s.handled(0, 0, 1, 2, 2, out), 3u) << "opens clocks 2 and 3";
  EXPECT_EQ(out, Messages{41});
  out.clear();
  // The first worker ends with clock 1: for 5 it counts as there.
  s.leave(0, 0, 0, 9, out);
  EXPECT_EQ(out, Messages{42});
}

}  // namespace
}  // namespace tandem::tests

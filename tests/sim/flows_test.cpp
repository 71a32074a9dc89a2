// SPDX-License-Identifier: Apache-2.0
#include "sim/network/flows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/network/level_order.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

using workloads::FlowNetwork;
using workloads::FlowStart;
using workloads::random_flows;
using workloads::run_flows;

/// Finish times by solving all flows anew at every event and taking off each what it has moved since.
std::vector<double> plain(const std::vector<double>& capacity, const std::vector<FlowStart>& starts) {
  struct Active {
    std::size_t flow;
    double left, rate;
  };
  std::vector<double> finish(starts.size());
  std::vector<Active> active;
  double now = 0;
  for (std::size_t next = 0; next < starts.size() || !active.empty();) {
    FairShare share(capacity);
    std::vector<FairShare::FlowId> ids;
    for (const Active& a : active) ids.push_back(share.add(starts[a.flow].uses, 0));
    share.update();
    double at = next < starts.size() ? Time{starts[next].at}.seconds() : 1e9;
    for (std::size_t i = 0; i < active.size(); ++i) {
      active[i].rate = share.rate(ids[i]);
      at = std::min(at, now + active[i].left / active[i].rate);
    }
    for (Active& a : active) a.left -= a.rate * (at - now);
    now = at;
    std::erase_if(active, [&](const Active& a) {
      if (a.left > 1e-3) return false;  // bytes, of a megabyte or more
      finish[a.flow] = now;
      return true;
    });
    for (; next < starts.size() && Time{starts[next].at}.seconds() <= now; ++next)
      active.push_back({next, starts[next].bytes, 0});
  }
  return finish;
}

class PlainFlows : public testing::TestWithParam<const char*> {};

TEST_P(PlainFlows, FinishWhenSolvingAnewAtEveryEventSays) {
  for (const bool arrivals : {false, true}) {
    const FlowNetwork network(GetParam(), 16);
    const auto starts = random_flows(network, 250, arrivals);
    const auto finish = run_flows(network.capacity(), starts);
    const auto expected = plain(network.capacity(), starts);
    for (std::size_t f = 0; f < starts.size(); ++f)
      EXPECT_NEAR(Time{finish[f]}.seconds(), expected[f], 1e-10 * (1 + expected[f])) << f;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, PlainFlows, testing::Values("fat-tree", "star", "torus"));

TEST(Flows, KeepTheirEndsHoweverLongALinkIsBusy) {
  // One flow after another keeps the link busy beside a long one; each pair shares it evenly.
  Flows flows({1e12});
  const std::vector<Use> uses{{0, 1}};
  std::vector<uint64_t> done;
  flows.start(0, uses, 0, 1e15, 0);
  flows.start(0, uses, 0, 1e13, 1);
  flows.update(0);
  for (int64_t i = 1; i <= 50; ++i) {
    ASSERT_EQ(flows.next(), 20 * i * 1'000'000'000'000);
    done.clear();
    const int64_t now = flows.next();
    flows.finish(now, done);
    ASSERT_EQ(done, std::vector<uint64_t>{1});
    flows.start(now, uses, 0, 1e13, 1);
    flows.update(now);
  }
}

TEST(Flows, CappedAndUnlimitedOnesEndByThemselves) {
  Flows flows({1e12});
  std::vector<uint64_t> done;
  flows.start(5, {}, 2e12, 10, 7);
  flows.start(5, {}, 0, 10, 8);
  flows.update(5);
  ASSERT_EQ(flows.next(), 5);
  flows.finish(5, done);
  EXPECT_EQ(done, std::vector<uint64_t>{8});
  flows.update(5);
  EXPECT_EQ(flows.next(), 10);
  done.clear();
  flows.finish(10, done);
  EXPECT_EQ(done, std::vector<uint64_t>{7});
  EXPECT_EQ(flows.next(), kNever);
  EXPECT_EQ(flows.active(), 0U);
}

TEST(MinTree, GivesTheLeastAndTheFirstOfSeveral) {
  MinTree tree;
  EXPECT_EQ(tree.least(), kNever);
  SplitMix64 random(3);
  std::vector<int64_t> times;
  for (int step = 0; step < 2000; ++step) {
    if (step % 40 == 0) {
      times.resize(times.size() + 1 + random.next() % 5, kNever);
      tree.grow(times.size());
    }
    const std::size_t i = random.next() % times.size();
    times[i] = random.next() % 4 == 0 ? kNever : static_cast<int64_t>(random.next() % 50);
    tree.set(i, times[i]);
    const auto least = std::min_element(times.begin(), times.end());
    ASSERT_EQ(tree.least(), *least);
    if (*least != kNever) ASSERT_EQ(tree.first(), static_cast<std::size_t>(least - times.begin()));
  }
}

TEST(IndexedHeap, HoldsTheLeastOnTopThroughPushesDropsAndErasures) {
  IndexedHeap heap;
  IndexedHeap::Places at(64);
  std::vector<double> keys(64, -1);  // -1: not in the heap
  SplitMix64 random(5);
  for (int step = 0; step < 5000; ++step) {
    const auto item = static_cast<uint32_t>(random.next() % 64);
    if (keys[item] < 0) {
      keys[item] = static_cast<double>(random.next() % 1000);
      heap.push({keys[item], item}, at);
    } else if (random.next() % 2 == 0) {
      ASSERT_EQ(heap.key(at[item]), keys[item]);
      heap.erase(at[item], at);
      keys[item] = -1;
    } else if (keys[item] > 0) {
      keys[item] -= 1;
      heap.lower({keys[item], item}, at);
    }
    double least = 1e9;
    for (const double k : keys) least = k >= 0 ? std::min(least, k) : least;
    ASSERT_EQ(heap.empty(), least == 1e9);
    if (!heap.empty()) ASSERT_EQ(heap.top().key, least);
  }
}

TEST(LevelOrder, GivesTheMarkedInOrderThroughMovesAndErasures) {
  LevelOrder order(40);
  std::vector<double> keys(40, -1);  // -1: not in the list
  std::vector<char> marked(40, 0);
  SplitMix64 random(9);
  for (int step = 0; step < 5000; ++step) {
    const auto item = static_cast<uint32_t>(random.next() % 40);
    const auto key = static_cast<double>(random.next() % 1000);
    const auto what = random.next() % 8;
    if (keys[item] < 0) {
      order.add(item, keys[item] = key);
    } else if (what == 0) {
      order.erase(item);
      keys[item] = -1;
      marked[item] = 0;
    } else if (what < 4) {
      order.move(item, keys[item] = key);
    } else {
      const bool on = what < 7;
      order.mark(item, on);
      marked[item] = marked[item] != 0 || on;
    }
    double least = -1, front = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (marked[i] != 0 && (least < 0 || keys[i] < least)) least = keys[i];
      if (keys[item] >= 0 && keys[i] < keys[item]) front = std::max(front, keys[i]);
    }
    if (keys[item] >= 0) {
      ASSERT_GE(order.before(item), front);
      ASSERT_LE(order.before(item), keys[item]);
    }
    if (step % 3 != 0) continue;
    const LevelOrder::Entry* const first = order.pop();
    ASSERT_EQ(first == nullptr, least < 0);
    if (first == nullptr) continue;
    ASSERT_EQ(first->key, least);
    ASSERT_EQ(keys[first->item], least);
    marked[first->item] = 0;
  }
}

}  // namespace
}  // namespace tandem::tests

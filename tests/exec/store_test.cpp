// SPDX-License-Identifier: Apache-2.0
// Stores, versions, gates (semantics.md 3.5 to 4.5), by hand and with threads that come in any order.
#include "exec/comm/store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <atomic>
#include <thread>

#include "base/random.h"

namespace tandem::tests {
namespace {

constexpr int64_t kElements = 6;

/// A store of one or more keys that subtracts the gradients' sum.
struct Bench {
  Bench(Store rules, int64_t workers, bool gated, uint32_t shards = 1) {
    ParameterStore::Setup setup;
    setup.rules = rules;
    setup.workers = workers;
    setup.shards = shards;
    setup.start = start.data();
    setup.elements = kElements;
    setup.gated = gated;
    setup.merge = [this](const Slice& s, const float* gradient, int64_t version, int64_t staleness) {
      for (int64_t i = 0; i < s.elements; ++i) store->parameters()[s.first + i] -= gradient[i];
      last_version = version;
      last_staleness = staleness;
    };
    store = std::make_unique<ParameterStore>(setup, abort, 20);
  }
  void push(uint32_t worker, float value) {
    const std::vector<float> gradient(kElements, value);
    reply.assign(kElements, 99);
    store->push(0, 0, worker, {0, kElements}, gradient.data(), reply.data(),
                [this, worker] { replied.push_back(worker); });
  }

  Abort abort;
  std::vector<float> start = std::vector<float>(kElements, 0), reply;
  std::vector<uint32_t> replied;  ///< workers, in the order of their replies
  int64_t last_version = 0, last_staleness = 0;
  std::unique_ptr<ParameterStore> store;
};

Store rules(int32_t batch, int32_t quorum, int32_t slack, bool drop_late = false) {
  Store s;
  s.batch = batch;
  s.quorum = quorum;
  s.slack = slack;
  s.drop_late = drop_late;
  return s;
}

/// Of two gradients that make a version each is weighted by its own staleness, here 1 / (1 + staleness).
TEST(ParameterStore, WeighsEachGradientOfAVersion) {
  Abort abort;
  std::vector<float> start(kElements), reply(kElements);
  std::unique_ptr<ParameterStore> store;
  ParameterStore::Setup setup;
  setup.rules = rules(2, 1, 0);
  setup.workers = 3;
  setup.start = start.data();
  setup.elements = kElements;
  setup.merge = [&](const Slice& s, const float* gradient, int64_t, int64_t) {
    for (int64_t i = 0; i < s.elements; ++i) store->parameters()[s.first + i] -= gradient[i];
  };
  setup.weight = [](int64_t staleness) { return 1 / static_cast<float>(1 + staleness); };
  store = std::make_unique<ParameterStore>(setup, abort, 20);
  const auto push = [&](uint32_t worker, float value) {
    const std::vector<float> gradient(kElements, value);
    store->push(0, 0, worker, {0, kElements}, gradient.data(), reply.data(), [] {});
    return store->parameters()[kElements - 1];
  };
  EXPECT_EQ(push(0, 1), 0) << "the first of a version";
  EXPECT_EQ(push(0, 2), -3);
  EXPECT_EQ(push(0, 4), -3);
  EXPECT_EQ(push(1, 8), -3 - 4 - 8 / 2.0F) << "one version behind";
  EXPECT_EQ(push(2, 6), -11) << "two versions behind, the first of a version";
  EXPECT_EQ(push(0, 1), -11 - 2 - 1 / 2.0F);
}

/// While worker 0's model is away to be averaged with worker 1's, another average and an update change it.
TEST(ParameterStore, ModelsKeepWhatOthersChangedMeanwhile) {
  Abort abort;
  const std::vector<float> start(kElements, 8);
  std::unique_ptr<ParameterStore> store;
  ParameterStore::Setup setup;
  setup.rules.own_models = true;
  setup.workers = setup.shards = 2;
  setup.start = start.data();
  setup.elements = kElements;
  setup.merge = [&](const Slice& s, const float* other, int64_t, int64_t) {
    for (int64_t i = 0; i < s.elements; ++i) store->at(s)[i] += (other[i] - store->at(s)[i]) / 2;
  };
  store = std::make_unique<ParameterStore>(setup, abort, 20);
  const auto value = [&](uint32_t worker) { return store->at({0, kElements, worker})[kElements - 1]; };
  const auto set = [&](uint32_t worker, float to) {
    store->change(worker, 0, {0, kElements, worker},
                  [&](float* model) { std::fill_n(model, kElements, to); });
  };
  set(0, 4);
  std::vector<float> sent(kElements), mean(kElements);
  store->read(0, 0, {0, kElements, 0}, sent.data());
  store->push(1, 0, 0, {0, kElements, 1}, sent.data(), mean.data(), [] {});
  EXPECT_EQ(value(1), 6);
  EXPECT_EQ(mean[0], 6);
  std::vector<float> other(kElements, 0), answer(kElements);
  store->push(0, 0, 1, {0, kElements, 0}, other.data(), answer.data(), [] {});
  EXPECT_EQ(value(0), 2) << "averaged by worker 1 meanwhile";
  store->join(0, 0, {0, kElements, 0}, sent.data(), mean.data());
  EXPECT_EQ(value(0), 4) << "moved by mean - sent";
  EXPECT_EQ(store->staleness_of(0).mean(), 2) << "worker 1's average and its own";
  EXPECT_EQ(store->versions(), 3);
}

TEST(ParameterStore, StampsTheVersionWhenItReplies) {
  Bench b(rules(1, 1, 0), 3, false);
  b.push(0, 1);  // computed on version 0, makes 1, and takes it along
  EXPECT_EQ(b.last_staleness, 0);
  EXPECT_EQ(b.reply, std::vector<float>(kElements, -1));
  b.push(1, 1);  // still on 0
  EXPECT_EQ(b.last_staleness, 1);
  b.push(1, 1);  // on 2
  EXPECT_EQ(b.last_staleness, 0);
  b.push(2, 1);  // on 0
  EXPECT_EQ(b.last_staleness, 3);
  b.push(0, 1);  // on 1; 2, 3, 4 came in between
  EXPECT_EQ(b.last_staleness, 3);
  EXPECT_EQ(b.store->versions(), 5);
  EXPECT_EQ(b.store->merged(), 5);
  EXPECT_EQ(b.store->staleness().count(), 5);
  EXPECT_EQ(b.store->staleness_of(1).max(), 1);
  EXPECT_EQ(b.reply, std::vector<float>(kElements, -5));
}

TEST(ParameterStore, MakesAVersionOfSoManyGradients) {
  Bench b(rules(3, 1, 0), 3, false);
  b.push(0, 1);
  b.push(1, 2);
  EXPECT_EQ(b.store->versions(), 0);
  EXPECT_EQ(b.reply, std::vector<float>(kElements, 0)) << "nothing is merged in part";
  b.push(0, 4);
  EXPECT_EQ(b.store->versions(), 1);
  EXPECT_EQ(b.reply, std::vector<float>(kElements, -7));
  b.push(2, 1);
  EXPECT_EQ(b.last_version, 1);
  EXPECT_EQ(b.store->staleness_of(2).max(), 1);
  EXPECT_EQ(b.store->merged(), 4);
}

/// Each of a node's devices pushes a share of its own, whose versions count the nodes.
TEST(ParameterStore, CountsVersionsOfEachShare) {
  Store two = rules(1, 1, 0);
  two.shares = 2;
  Bench b(two, 4, false);
  const std::vector<float> gradient = {1, 2, 3};
  std::vector<float> reply(3);
  const auto push = [&](uint32_t worker) {
    const Slice half{worker % 2 * 3, 3};
    b.store->push(0, 0, worker, half, gradient.data(), reply.data(), [] {});
  };
  for (const uint32_t worker : {0U, 1U, 0U, 1U}) push(worker);
  EXPECT_EQ(b.store->staleness().max(), 0) << "one node alone, whose devices push nothing in common";
  EXPECT_EQ(b.store->versions(), 4);
  for (const uint32_t worker : {2U, 3U}) push(worker);
  EXPECT_EQ(b.store->staleness_of(2).max(), 2) << "two of the other node's came before";
  EXPECT_EQ(b.store->staleness_of(3).max(), 2);
  push(0);
  EXPECT_EQ(b.store->staleness_of(0).max(), 1);
  const float* p = b.store->parameters();
  EXPECT_EQ(std::vector<float>(p, p + kElements), (std::vector<float>{-4, -8, -12, -3, -6, -9}));
}

TEST(ParameterStore, DropsLateGradients) {
  Bench b(rules(2, 2, 0, true), 3, true);
  b.push(0, 1);
  b.push(1, 1);
  b.push(2, 100);  // computed on 0, and 1 is made
  EXPECT_EQ(b.store->dropped(), 1);
  EXPECT_EQ(b.store->merged(), 2);
  EXPECT_EQ(b.store->versions(), 1);
  // Its clock joins the round that it is answered in.
  EXPECT_EQ(b.replied, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(b.reply, std::vector<float>(kElements, -1 - 1));
  b.push(2, 1);
  b.push(0, 1);
  EXPECT_EQ(b.store->versions(), 2);
  EXPECT_EQ(b.store->staleness().max(), 0);
}

/// Workers at their own speeds: the gate keeps their clocks together and every reply is of one version.
void race(int32_t slack, int64_t workers, int64_t rounds) {
  Bench b(rules(1, static_cast<int32_t>(workers), slack), workers, true);
  std::vector<std::atomic<int64_t>> clocks(static_cast<std::size_t>(workers));
  std::atomic<int64_t> widest{0}, torn{0};
  const auto work = [&](uint32_t me) {
    SplitMix64 random(me);
    std::vector<float> gradient(kElements, 1), reply(kElements);
    Counter replies;
    for (int64_t i = 0; i < rounds; ++i) {
      for (uint64_t k = random.next() % 4; k > 0; --k) std::this_thread::yield();
      b.store->push(0, 0, me, {0, kElements}, gradient.data(), reply.data(), [&replies] { replies.add(); });
      replies.wait(static_cast<uint32_t>(i) + 1, b.abort, 20);
      clocks[me] = i + 1;
      int64_t least = rounds;
      for (const auto& c : clocks) least = std::min(least, c.load());
      int64_t seen = widest.load();
      while (i + 1 - least > seen && !widest.compare_exchange_weak(seen, i + 1 - least)) {
      }
      for (const float x : reply) torn += x == reply[0] ? 0 : 1;
    }
    b.store->leave(me, 0);
  };
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < workers; ++w) threads.emplace_back(work, w);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(torn.load(), 0);
  // A worker that passed the gate with clock c has seen everybody at c - slack pushed, of which the last
  // may not have been answered.
  EXPECT_LE(widest.load(), slack + 1);
  EXPECT_EQ(b.store->versions(), workers * rounds);
  EXPECT_EQ(b.store->parameters()[0], static_cast<float>(-workers * rounds));
}

TEST(ParameterStore, GateKeepsClocksWithinTheSlack) {
  for (const int32_t slack : {0, 1, 3}) race(slack, 4, 200);
}

/// No other push comes between a worker's own and its reply: who queues meanwhile is not in it.
TEST(ParameterStore, AnswersAPushBeforeTheNext) {
  Bench b(rules(1, 2, 1), 2, true);
  b.push(0, 1);
  EXPECT_EQ(b.reply, std::vector<float>(kElements, -1));
  b.push(0, 1);
  EXPECT_EQ(b.replied, (std::vector<uint32_t>{0})) << "two ahead of a worker that has not pushed";
  b.push(1, 1);
  EXPECT_EQ(b.replied, (std::vector<uint32_t>{0, 0, 1})) << "parked ones first";
  EXPECT_EQ(b.reply, std::vector<float>(kElements, -3));
  EXPECT_EQ(b.last_staleness, 2);
}

}  // namespace
}  // namespace tandem::tests

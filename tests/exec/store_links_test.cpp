// SPDX-License-Identifier: Apache-2.0
// Gradients to servers on other nodes, and parameters back.
#include "exec/comm/store_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/comm/tcp_transport.h"

namespace tandem::tests {
namespace {

constexpr int64_t kElements = 3000;

/// Two workers on nodes 0 and 1; two shards, on nodes 1 and 2; two keys, each one half of the parameters.
struct Bench {
  explicit Bench(bool gated) {
    Store rules;
    rules.quorum = 2;
    ParameterStore::Setup setup;
    setup.rules = rules;
    setup.workers = 2;
    setup.shards = 2;
    setup.keys = 2;
    setup.start = start.data();
    setup.elements = kElements;
    setup.gated = gated;
    setup.merge = [this](const Slice& s, const float* gradient, int64_t, int64_t) {
      for (int64_t i = 0; i < s.elements; ++i) store->parameters()[s.first + i] -= gradient[i];
    };
    store = std::make_unique<ParameterStore>(setup, abort, 20);
    links = std::make_unique<StoreLinks>(StoreLinks::Setup{{0, 1}, {1, 2}, 2, 7, slice}, transport, *store,
                                         abort);
  }
  static Slice slice(uint32_t key, uint32_t, uint32_t shard) {
    return {kElements / 4 * (2 * key + shard), kElements / 4};
  }
  void push(uint32_t worker, uint32_t shard, uint32_t key, float value) {
    const std::vector<float> gradient(kElements / 4, value);
    links->push(worker, shard, key, gradient.data(), reply[worker].data() + slice(key, worker, shard).first);
  }
  float got(uint32_t worker, uint32_t shard, uint32_t key) {
    links->await(worker, shard, key);
    return reply[worker][static_cast<std::size_t>(slice(key, worker, shard).first)];
  }

  Abort abort;
  TcpTransport transport{3, std::nullopt, abort};
  std::vector<float> start = std::vector<float>(kElements, 0);
  std::vector<float> reply[2] = {std::vector<float>(kElements, 9), std::vector<float>(kElements, 9)};
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<StoreLinks> links;
};

TEST(StoreLinks, SendBackWhatTheGradientMade) {
  Bench b(false);
  EXPECT_TRUE(b.links->apart(0, 0) && b.links->apart(0, 1) && b.links->apart(1, 1));
  EXPECT_FALSE(b.links->apart(1, 0));
  for (int i = 1; i <= 50; ++i) {
    b.push(0, 0, 0, 1);
    b.push(0, 1, 1, 2);
    EXPECT_EQ(b.got(0, 0, 0), static_cast<float>(-i));
    EXPECT_EQ(b.got(0, 1, 1), static_cast<float>(-2 * i));
  }
  EXPECT_EQ(b.store->versions(), 100);
  EXPECT_EQ(b.store->staleness().max(), 0);
}

/// At a gate the key that came first may be answered last.
TEST(StoreLinks, RepliesWaitAtTheGateEachForItself) {
  Bench b(true);
  b.push(0, 1, 0, 1);
  b.push(0, 1, 1, 1);
  b.push(1, 1, 1, 1);
  EXPECT_EQ(b.got(0, 1, 1), -2);
  EXPECT_EQ(b.got(1, 1, 1), -2);
  b.links->leave(1, 1);  // it holds nobody back any more
  EXPECT_EQ(b.got(0, 1, 0), -1);
}

TEST(StoreLinks, ALostLinkEndsTheWait) {
  Bench b(true);
  b.push(0, 1, 0, 1);
  b.transport.cut(0, 2);
  EXPECT_THROW(b.links->await(0, 1, 0), Stopped);
  try {
    std::rethrow_exception(b.abort.why());
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("the link between node 0 and node 2 is lost"));
  }
}

}  // namespace
}  // namespace tandem::tests

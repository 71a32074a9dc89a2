// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "exec/comm/collective.h"

namespace tandem::tests {
namespace {

std::vector<float> numbers(int64_t n, int64_t first = 0) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (int64_t i = 0; i < n; ++i) v[static_cast<std::size_t>(i)] = static_cast<float>((first + i) % 8191);
  return v;
}

std::string failure(const Abort& abort) {
  try {
    if (const auto why = abort.why()) std::rethrow_exception(why);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

TEST(TcpTransport, BringsEveryElementBothWaysAtOnce) {
  Abort abort;
  TcpTransport transport(2, std::nullopt, abort);
  transport.connect(0, 1);
  constexpr int64_t n = 4'000'001;  // far more than sockets hold: nobody may wait for the other's sending
  const auto data = numbers(n);
  std::vector<std::vector<float>> got(2, std::vector<float>(static_cast<std::size_t>(n)));
  std::vector<std::thread> threads;
  for (uint32_t node = 0; node < 2; ++node) {
    threads.emplace_back([&, node] {
      TcpTransport::Receive receive;
      transport.watch(receive);
      receive.to = got[node].data();
      receive.elements = n;
      transport.send(node, 1 - node, {1, 0, node, 1 - node, 0}, data.data(), n, true);
      transport.post(1 - node, node, {1, 0, 1 - node, node, 0}, receive);
      transport.wait(receive);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(got[0], data);
  EXPECT_EQ(got[1], data);
}

TEST(TcpTransport, AddsInPlaceWhetherPostedBeforeOrAfter) {
  Abort abort;
  TcpTransport transport(2, std::nullopt, abort);
  transport.connect(0, 1);
  constexpr int64_t n = 100'003;
  const auto data = numbers(n);
  for (const bool before : {true, false}) {
    std::vector<float> sum = numbers(n, 5);
    TcpTransport::Receive receive;
    transport.watch(receive);
    receive.to = sum.data();
    receive.elements = n;
    receive.add = true;
    if (before) transport.post(0, 1, {4, 0, 0, 1, 0}, receive);
    transport.send(0, 1, {4, 0, 0, 1, 0}, data.data(), n, false);
    if (!before) transport.post(0, 1, {4, 0, 0, 1, 0}, receive);
    transport.wait(receive);
    for (int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::size_t>(i);
      ASSERT_EQ(sum[k], data[k] + static_cast<float>((i + 5) % 8191));
    }
  }
}

struct Arrived {
  MessageHead head;
  std::vector<float> payload;
};

TEST(TcpTransport, HandsOverMessagesOfManySendersWholeAndInOrder) {
  for (const bool late : {false, true}) {
    Abort abort;
    std::optional<RateLimit> rate_limit;
    if (late) rate_limit = RateLimit{{1e9}, Time::from_seconds(0.002)};
    std::mutex mutex;
    std::map<uint32_t, std::vector<Arrived>> arrived;  // by sender
    Counter count;
    abort.watch(&count);
    {
      TcpTransport transport(2, rate_limit, abort);
      transport.handle(9, [&](const MessageHead& head, const float* payload, int64_t elements) {
        const std::lock_guard guard(mutex);
        arrived[head.from].push_back({head, {payload, payload + elements}});
        count.add();
      });
      transport.connect(0, 1);
      std::vector<std::thread> senders;
      for (uint32_t from = 0; from < 4; ++from) {
        senders.emplace_back([&, from] {
          for (uint32_t k = 0; k < 50; ++k) {
            const auto data = numbers(k % 10 == 9 ? 70'000 : k, from);
            transport.send(0, 1, {9, k, from, 0, k + 100}, data.data(), static_cast<int64_t>(data.size()),
                           false);
          }
        });
      }
      for (std::thread& t : senders) t.join();
      count.wait(200, abort, 20);
    }
    ASSERT_EQ(arrived.size(), 4U);
    for (const auto& [from, messages] : arrived) {
      ASSERT_EQ(messages.size(), 50U);
      for (uint32_t k = 0; k < 50; ++k) {
        EXPECT_EQ(messages[k].head.key, k);
        EXPECT_EQ(messages[k].head.version, k + 100);
        EXPECT_EQ(messages[k].payload, numbers(k % 10 == 9 ? 70'000 : k, from));
      }
    }
  }
}

TEST(TcpTransport, NothingArrivesBeforeTheLatencyHasPassed) {
  Abort abort;
  TcpTransport transport(3, RateLimit{{1e9}, Time::from_seconds(0.03)}, abort);
  transport.connect(0, 2);
  std::vector<float> to(10);
  TcpTransport::Receive receive;
  transport.watch(receive);
  receive.to = to.data();
  receive.elements = 10;
  const int64_t start = now_ns();
  transport.post(0, 2, {0, 0, 0, 2, 0}, receive);
  transport.send(0, 2, {0, 0, 0, 2, 0}, numbers(10).data(), 10, false);
  transport.wait(receive);
  EXPECT_GE(now_ns() - start, 30'000'000);
  EXPECT_EQ(to, numbers(10));
}

TEST(TcpTransport, ACutLinkNamesBothEndsAndLetsEverybodyGo) {
  Abort abort;
  std::vector<std::vector<float>> buffers(3, std::vector<float>(1000));
  TcpTransport transport(3, std::nullopt, abort);
  GroupCollective group(CollKind::all_reduce, "ring", 3, 1, abort, 20, {&transport, 0, {0, 1, 2}});
  std::atomic<int> stopped = 0;
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      try {
        for (;;) group.run(r, buffers[r].data(), 1000);
      } catch (const Stopped&) {
        ++stopped;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  transport.cut(2, 1);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(stopped, 3);
  EXPECT_THAT(failure(abort), testing::HasSubstr("the link between node 1 and node 2 is lost"));
}

TEST(TcpTransport, ACutLinkStopsASenderWhoseReceiverIsGone) {
  Abort abort;
  TcpTransport transport(2, RateLimit{{1e5}, Time{}}, abort);
  transport.connect(0, 1);
  const auto data = numbers(2'000'000);
  std::thread sender([&] {
    EXPECT_THROW(transport.send(0, 1, {0, 0, 0, 1, 0}, data.data(), 2'000'000, true), Stopped);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  transport.cut(0, 1);
  sender.join();
  EXPECT_THAT(failure(abort), testing::HasSubstr("the link between node 0 and node 1 is lost"));
}

}  // namespace
}  // namespace tandem::tests

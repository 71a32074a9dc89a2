// SPDX-License-Identifier: Apache-2.0
// How threads of a run wait for each other.
#include "exec/comm/sync.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace tandem::tests {
namespace {

/// Waits in `wait` until another thread adds up to `target`, or fails the run.
template <typename Wait>
bool stopped(const Wait& wait, uint32_t target, bool fails) {
  Abort abort;
  Counter counter;
  abort.watch(&counter);
  bool stopped = false;
  std::thread waits([&] {
    try {
      wait(counter, target, abort);
    } catch (const Stopped&) {
      stopped = true;
    }
  });
  for (uint32_t i = 0; i < target - 1; ++i) {
    counter.add();
    std::this_thread::yield();
  }
  // Longer than any thread stays awake, so that both ways to wait end this wait once.
  if (fails) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  if (fails)
    abort.fail(std::make_exception_ptr(DeviceError("gone")));
  else
    counter.add();
  waits.join();
  if (!fails) {
    EXPECT_EQ(counter.value(), target);
  }
  return stopped;
}

TEST(Counter, WaitsEndAtTheTargetOrWhenTheRunFails) {
  const auto asleep = [](Counter& c, uint32_t target, Abort& a) { c.wait(target, a, 5); };
  const auto awake = [](Counter& c, uint32_t target, Abort& a) { c.wait_awake(target, a, 5); };
  for (const uint32_t target : {1U, 2U, 50U}) {
    EXPECT_FALSE(stopped(asleep, target, false));
    EXPECT_FALSE(stopped(awake, target, false));
    EXPECT_TRUE(stopped(asleep, target, true));
    EXPECT_TRUE(stopped(awake, target, true));
  }
}

TEST(TicketLock, LetsOneThreadInAtATime) {
  Abort abort;
  TicketLock lock;
  abort.watch(&lock.counter());
  int64_t inside = 0, most = 0, sum = 0;
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      lock.lock(abort, 5);
      most = std::max(most, ++inside);
      ++sum;
      --inside;
      lock.unlock();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(sum, 2000);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the threads of a run wait for each other: short spin, then sleep or, for another core, yield; any wait
// ends when the run fails.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/rooms.h"

namespace tandem::exec {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Thrown in every thread of a run after one of them failed; carries nothing, the first failure is reported.
struct Stopped {};

class Counter;

/// The run's emergency stop. Every Counter that is waited on registers here, so that fail() wakes all.
class Abort {
 public:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void check() const {
    if (failed()) throw Stopped();
  }
  /// Keeps the first failure and wakes everybody.
  void fail(std::exception_ptr why);
  /// The first failure, or null.
  std::exception_ptr why() const;
  void watch(Counter* counter);

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::exception_ptr why_;
  std::vector<Counter*> watched_;
};

/// A count that only grows (modulo 2^32), on its own cache line.
class alignas(64) Counter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void set(uint32_t value) {
    value_.store(value, std::memory_order_release);
    value_.notify_all();
  }
  void add(uint32_t n = 1) {
    value_.fetch_add(n, std::memory_order_acq_rel);
    value_.notify_all();
  }
  /// Until value >= target; throws Stopped. `spins` tries before it sleeps.
  void wait(uint32_t target, const Abort& abort, int spins) const { wait(target, abort, spins, 0); }
  /// For what a thread on another core will do: yields before it sleeps, so that the core does not idle. A
  /// virtual machine's idle core is lent to others and comes back after milliseconds. (Intel's OpenMP stays
  /// awake for 200 ms, KMP_BLOCKTIME.) Sleeps at once where another thread wants the core.
  void wait_awake(uint32_t target, const Abort& abort, int spins) const {
    wait(target, abort, spins, now_ns() + 50'000'000);
  }
  /// Wakes sleepers without progress: they look at the Abort again.
  void wake() {
    value_.fetch_xor(0x80000000U);  // any change wakes; the run is over
    value_.notify_all();
  }

 private:
  static constexpr int64_t kShared = 100'000;  ///< ns; a yield that takes longer let another thread run
  void wait(uint32_t target, const Abort& abort, int spins, int64_t awake_until) const {
    for (int i = 0;; ++i) {
      const uint32_t seen = value();
      abort.check();  // first: wake() changes the value
      if (static_cast<int32_t>(seen - target) >= 0) return;
      if (i < spins) {
        pause();
        continue;
      }
      const int64_t now = awake_until == 0 ? 0 : now_ns();
      if (now >= awake_until) {
        value_.wait(seen, std::memory_order_acquire);
        continue;
      }
      std::this_thread::yield();
      if (now_ns() - now > kShared) awake_until = 0;
    }
  }
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }
  std::atomic<uint32_t> value_{0};
};

/// Until now_ns() >= ns, looking every `look` nanoseconds for a failed run; throws Stopped.
inline void sleep_until(int64_t ns, const Abort& abort, int64_t look) {
  for (int64_t now = now_ns(); now < ns; now = now_ns()) {
    abort.check();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(ns - now, look)));
  }
}

/// First come, first served.
class TicketLock {
 public:
  void lock(const Abort& abort, int spins) {
    serving_.wait_awake(next_.fetch_add(1, std::memory_order_acq_rel), abort, spins);
  }
  void unlock() { serving_.add(); }
  Counter& counter() { return serving_; }

 private:
  std::atomic<uint32_t> next_{0};
  Counter serving_;
};

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work that does not depend on other work, on several threads.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include "base/until.h"

namespace tandem::base {

/// Calls work(i) for i < count on that many threads, this one included, in about that order. Rethrows what
/// the first of them threw, in the order of i. An Until of this thread holds for all of them.
template <typename Work>
void in_parallel(std::size_t count, int threads, Work work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(count);
  const std::atomic<bool>* const stop = Until::here();
  const auto loop = [&] {
    const Until until(stop);
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < std::min<int>(threads, static_cast<int>(count)); ++t) pool.emplace_back(loop);
  loop();
  for (std::thread& t : pool) t.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace tandem::base

// SPDX-License-Identifier: Apache-2.0
#include "base/until.h"

#include <gtest/gtest.h>

#include "base/in_parallel.h"

namespace tandem::tests {
namespace {

using base::Stopped;
using base::Until;

TEST(Until, EndsTheWorkOfItsThread) {
  std::atomic<bool> stop{false};
  const Until until(&stop);
  EXPECT_NO_THROW(Until::check());
  stop = true;
  EXPECT_THROW(Until::check(), Stopped);
  {
    const Until to_its_end(nullptr);
    EXPECT_NO_THROW(Until::check());
  }
  EXPECT_THROW(Until::check(), Stopped);
  std::thread other([] { EXPECT_NO_THROW(Until::check()); });
  other.join();
}

TEST(Until, EndsWhatItsThreadDoesInParallel) {
  std::atomic<bool> stop{true};
  const Until until(&stop);
  std::atomic<int> ended{0};
  EXPECT_THROW(base::in_parallel(8, 4,
                                 [&](std::size_t) {
                                   try {
                                     Until::check();
                                   } catch (const Stopped&) {
                                     ++ended;
                                     throw;
                                   }
                                 }),
               Stopped);
  EXPECT_EQ(ended, 8);
}

}  // namespace
}  // namespace tandem::tests

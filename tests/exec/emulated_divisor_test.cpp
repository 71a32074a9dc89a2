// SPDX-License-Identifier: Apache-2.0
// Divisions by products give what divisions give.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/device/cuda/divisor.h"

namespace tandem::tests {
namespace {

template <typename I>
void divides(I limit) {
  for (const I by : {I{1}, I{2}, I{3}, I{7}, I{64}, I{641}, I{50257}, I{65537}, I{1 << 30}, (I{1} << 30) + 1,
                     limit - 1, limit}) {
    const exec::cuda::Divisor<I> divisor(by);
    ASSERT_EQ(divisor.by, by);
    for (const I multiple : {I{0}, I{1}, I{2}, I{1000}, limit / by}) {
      if (multiple > limit / by) continue;
      const I product = multiple * by;
      for (I n = product - std::min<I>(product, 2); n < product + std::min<I>(limit - product, 3); ++n)
        ASSERT_EQ(divisor.quotient(n), n / by) << n << " by " << by;
    }
    ASSERT_EQ(divisor.quotient(limit), limit / by) << "by " << by;
  }
  for (I by = 1; by <= 300; ++by) {
    const exec::cuda::Divisor<I> divisor(by);
    for (I n = 0; n <= 3000; ++n) ASSERT_EQ(divisor.quotient(n), n / by) << n << " by " << by;
  }
}

TEST(Divisor, GivesWhatADivisionGives) {
  divides<int32_t>(INT32_MAX);
  divides<uint32_t>(INT32_MAX);
  divides<int64_t>(int64_t{1} << 40);
}

}  // namespace
}  // namespace tandem::tests

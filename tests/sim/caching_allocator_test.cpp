// SPDX-License-Identifier: Apache-2.0
// The allocator's rules, by hand.
#include "sim/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tandem::tests {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(CachingAllocator, RoundsBlocksAndSegments) {
  struct Case {
    int64_t asked, allocated, reserved;
  };
  for (const Case& c :
       {Case{1, 512, 2 * kMiB}, Case{513, 1024, 2 * kMiB}, Case{kMiB, kMiB, 2 * kMiB},
        Case{kMiB + 1, kMiB + 512, 20 * kMiB}, Case{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
        Case{10 * kMiB, 10 * kMiB, 10 * kMiB}, Case{13 * kMiB, 14 * kMiB, 14 * kMiB}}) {
    CachingAllocator a;
    a.allocate({c.asked});
    EXPECT_EQ(a.allocated().n, c.allocated) << c.asked;  // 13 MiB: a rest of 1 MiB is not split off
    EXPECT_EQ(a.reserved().n, c.reserved) << c.asked;
  }
}

TEST(CachingAllocator, KeepsWhatIsFreedAndTakesTheBestFit) {
  CachingAllocator a;
  const auto large = a.allocate({40 * kMiB}), between = a.allocate({16 * kMiB}),
             small = a.allocate({24 * kMiB});
  a.release(large);
  a.release(small);
  EXPECT_EQ(a.reserved().n, 80 * kMiB);
  EXPECT_EQ(a.allocated().n, 16 * kMiB);
  a.allocate({22 * kMiB});  // of the 24: the 40 stay whole
  a.allocate({40 * kMiB});
  EXPECT_EQ(a.reserved().n, 80 * kMiB);
  a.release(between);
  EXPECT_EQ(a.peak_allocated().n, 80 * kMiB);
}

/// What was split comes together again when its neighbours are freed, in whatever order.
TEST(CachingAllocator, NeighboursMerge) {
  for (const bool forward : {true, false}) {
    CachingAllocator a;
    std::vector<CachingAllocator::Handle> parts;
    for (int i = 0; i < 10; ++i) parts.push_back(a.allocate({2 * kMiB}));
    EXPECT_EQ(a.reserved().n, 20 * kMiB);
    for (std::size_t i = 0; i < parts.size(); ++i) a.release(parts[forward ? i : parts.size() - 1 - i]);
    EXPECT_EQ(a.allocated().n, 0);
    a.allocate({9 * kMiB});
    a.allocate({9 * kMiB});
    EXPECT_EQ(a.reserved().n, 20 * kMiB);
  }
}

TEST(CachingAllocator, GivesFreeSegmentsBackBeforeItFails) {
  CachingAllocator a({64 * kMiB});
  a.release(a.allocate({40 * kMiB}));
  const auto other = a.allocate({50 * kMiB});  // the 40 are too small, and together they exceed the limit
  EXPECT_FALSE(a.exceeded());
  EXPECT_EQ(a.reserved().n, 50 * kMiB);
  a.allocate({20 * kMiB});
  EXPECT_TRUE(a.exceeded());
  EXPECT_EQ(a.reserved().n, 70 * kMiB);
  a.release(other);
  EXPECT_EQ(a.allocated().n, 20 * kMiB);
}

/// Whatever is taken and freed: blocks hold what was asked for, lie in segments, and all comes back.
TEST(CachingAllocator, CountsAddUp) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CachingAllocator a;
    std::vector<std::pair<CachingAllocator::Handle, int64_t>> held;
    int64_t asked = 0;
    for (uint64_t i = 0; i < 500; ++i) {
      const uint64_t draw = draw_bits(seed, i);
      if (draw % 3 == 0 && !held.empty()) {
        const std::size_t which = (draw >> 8) % held.size();
        asked -= held[which].second;
        a.release(held[which].first);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const auto size = static_cast<int64_t>((draw >> 8) % (uint64_t{1} << (10 + (draw >> 40) % 15))) + 1;
        held.emplace_back(a.allocate({size}), size);
        asked += size;
      }
      ASSERT_GE(a.allocated().n, asked);
      ASSERT_LE(a.allocated().n, a.reserved().n);
      ASSERT_GE(a.peak_reserved(), a.reserved());
    }
    for (const auto& [handle, size] : held) a.release(handle);
    EXPECT_EQ(a.allocated().n, 0);
  }
}

}  // namespace
}  // namespace tandem::tests

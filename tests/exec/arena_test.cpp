// SPDX-License-Identifier: Apache-2.0
// Places in the arena: worked out by hand, and for random lives.
#include "exec/lower/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace tandem::tests {
namespace {

using testing::ElementsAre;

TEST(Arena, BlocksInUseTogetherLieSideBySide) {
  // The largest first, at the bottom; equal ones in their order.
  const ArenaLayout layout = lay_out_arena({{16, 0, 1}, {64, 0, 1}, {32, 1, 2}, {32, 1, 2}});
  EXPECT_THAT(layout.offsets, ElementsAre(128, 0, 64, 96));
  EXPECT_EQ(layout.words, 144);
}

TEST(Arena, BlocksOneAfterTheOtherShareAPlace) {
  const ArenaLayout layout = lay_out_arena({{32, 0, 1}, {32, 2, 3}, {32, 4, 4}});
  EXPECT_THAT(layout.offsets, ElementsAre(0, 0, 0));
  EXPECT_EQ(layout.words, 32);
}

/// Steps are included on both sides: the last reader of one may not be the writer of the other.
TEST(Arena, BlocksThatMeetInAStepAreTogether) {
  EXPECT_THAT(lay_out_arena({{32, 0, 1}, {16, 1, 2}}).offsets, ElementsAre(0, 32));
}

TEST(Arena, AHoleIsFilledWhereItIsFree) {
  // Between the first, which stays, and the third, the second leaves a hole of 32.
  const ArenaLayout layout = lay_out_arena({{64, 0, 9}, {48, 0, 1}, {40, 0, 9}, {32, 2, 9}, {48, 2, 9}});
  EXPECT_THAT(layout.offsets, ElementsAre(0, 64, 112, 160, 64));
  EXPECT_EQ(layout.words, 192);
}

TEST(Arena, PlacesAreAligned) {
  const ArenaLayout layout = lay_out_arena({{17, 0, 1}, {1, 0, 1}, {2, 0, 1}});
  EXPECT_THAT(layout.offsets, ElementsAre(0, 48, 32));
  EXPECT_EQ(layout.words, 64);
  EXPECT_EQ(lay_out_arena({}).words, 0);
}

/// No two overlap that are in use together, and the arena is no smaller than what any step has in use and no
/// larger than all blocks side by side.
TEST(Arena, RandomLivesNeverCollide) {
  constexpr int64_t kSteps = 40;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<ArenaBlock> blocks(1 + draw_bits(seed, 0, 0, 0) % 60);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto first = static_cast<int64_t>(draw_bits(seed, 1, b, 0) % kSteps);
      const auto length = static_cast<int64_t>(draw_bits(seed, 1, b, 1) % (seed % 3 == 0 ? 40 : 6));
      blocks[b] = {1 + static_cast<int64_t>(draw_bits(seed, 1, b, 2) % 300), first, first + length};
    }
    const ArenaLayout layout = lay_out_arena(blocks);
    std::vector<int64_t> in_use(2 * kSteps, 0);
    int64_t all = 0;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const int64_t begin = layout.offsets[b], end = begin + blocks[b].words;
      EXPECT_EQ(begin % kArenaAlign, 0);
      EXPECT_LE(end, layout.words);
      all += arena_aligned(blocks[b].words);
      for (int64_t step = blocks[b].first; step <= blocks[b].last; ++step)
        in_use[static_cast<std::size_t>(step)] += arena_aligned(blocks[b].words);
      for (std::size_t other = 0; other < b; ++other) {
        if (blocks[other].last < blocks[b].first || blocks[b].last < blocks[other].first) continue;
        EXPECT_TRUE(layout.offsets[other] + blocks[other].words <= begin || end <= layout.offsets[other])
            << "seed " << seed << ": " << other << " and " << b;
      }
    }
    EXPECT_GE(layout.words, *std::max_element(in_use.begin(), in_use.end()));
    EXPECT_LE(layout.words, all);
  }
}

}  // namespace
}  // namespace tandem::tests

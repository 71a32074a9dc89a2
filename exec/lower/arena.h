// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where in one stretch of memory tensors are placed, so that those in use together do not overlap.
#include <cstdint>
#include <vector>

#include "base/rooms.h"

namespace tandem::exec {

/// Words of 4 bytes that begin a cache line and fill an AVX-512 register: 64 bytes.
inline constexpr int64_t kArenaAlign = 16;
inline int64_t arena_aligned(int64_t words) { return (words + kArenaAlign - 1) / kArenaAlign * kArenaAlign; }

/// In use from step `first` to step `last`, both included.
struct ArenaBlock {
  int64_t words = 0;
  int64_t first = 0, last = 0;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  ///< [block], in words, multiples of kArenaAlign
  int64_t words = 0;             ///< up to the end of the last block
};

/// Greedy by size (Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference",
/// section 5), with the lowest place instead of the tightest: the largest first, equal ones in their order,
/// each where it is free for as long as it is in use. Pure; any thread may call it. O(n^2).
ArenaLayout lay_out_arena(const std::vector<ArenaBlock>& blocks);

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/arena.h"

#include <algorithm>
#include <numeric>

namespace tandem::exec {

namespace {

bool together(const ArenaBlock& a, const ArenaBlock& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

ArenaLayout lay_out_arena(const std::vector<ArenaBlock>& blocks) {
  ArenaLayout out{std::vector<int64_t>(blocks.size(), 0), 0};
  std::vector<std::size_t> order(blocks.size()), placed;  // placed: by offset
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].words > blocks[b].words; });
  for (const std::size_t b : order) {
    const int64_t size = arena_aligned(blocks[b].words);
    int64_t at = 0;
    for (const std::size_t other : placed) {
      if (!together(blocks[other], blocks[b])) continue;
      if (out.offsets[other] >= at + size) break;
      at = std::max(at, out.offsets[other] + arena_aligned(blocks[other].words));
    }
    out.offsets[b] = at;
    out.words = std::max(out.words, at + size);
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), at,
                         [&](int64_t offset, std::size_t other) { return offset < out.offsets[other]; });
    placed.insert(after, b);
  }
  return out;
}

}  // namespace tandem::exec

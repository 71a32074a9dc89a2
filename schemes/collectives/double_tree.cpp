// SPDX-License-Identifier: Apache-2.0
// Two binary trees, each for half of the buffer, such that a rank is an inner node in at most one (Sanders,
// Speck, Traeff 2009; NCCL since 2.4): pipelined, every rank sends about 2 buffers, latency logarithmic.
#include <algorithm>

#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

/// Parent of `rank` in a binary tree over 0..p-1 rooted at 0 whose odd ranks are leaves: the lowest set bit
/// tells the level; the parent has the next bit set, or where that is out of range, this bit cleared.
uint32_t parent(uint32_t rank, uint32_t p) {
  const uint32_t bit = rank & (0U - rank);
  const uint32_t up = (rank ^ bit) | (bit << 1);
  return up < p ? up : rank ^ bit;
}

uint32_t depth(uint32_t rank, uint32_t p) {
  uint32_t d = 0;
  for (; rank != 0; rank = parent(rank, p)) ++d;
  return d;
}

/// Names of the second tree: mirrored when p is even, shifted by one when odd, so that leaves become inner.
uint32_t renamed(uint32_t rank, uint32_t p) { return p % 2 == 0 ? p - 1 - rank : (rank + 1) % p; }

bool supported_by_double_tree(CollKind kind, const GroupShape&) { return kind == CollKind::all_reduce; }

Schedule schedule_double_tree(CollKind, const GroupShape& group) {
  constexpr uint32_t kPieces = 64;
  Schedule s;
  const uint32_t p = s.ranks = group.ranks;
  if (p == 1) return s;
  s.chunks = 2;
  s.pipeline = kPieces;
  uint32_t deepest = 0;
  for (uint32_t r = 1; r < p; ++r) deepest = std::max(deepest, depth(r, p));
  s.steps.resize(2 * static_cast<std::size_t>(deepest));
  for (uint32_t r = 1; r < p; ++r) {
    const uint32_t d = depth(r, p), up = parent(r, p);
    for (uint32_t tree = 0; tree < 2; ++tree) {
      const uint32_t child = tree == 0 ? r : renamed(r, p), father = tree == 0 ? up : renamed(up, p);
      s.steps[deepest - d].moves.push_back({child, father, tree, 1, true});
      s.steps[deepest + d - 1].moves.push_back({father, child, tree, 1, false});
    }
  }
  return s;
}

}  // namespace

void register_double_tree(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"double-tree",
                "two complementary binary trees, pipelined: near-optimal bytes, logarithmic latency",
                supported_by_double_tree, schedule_double_tree});
}

}  // namespace tandem::schemes

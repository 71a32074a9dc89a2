// SPDX-License-Identifier: Apache-2.0
// Binomial tree: log2(p) steps up (sums) and down (copies), whole buffers, no pipelining. Pairs are nearest
// first, as Caffe pairs GPUs and MPI libraries do for short messages.
#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

/// Ranks with lowest set bit `bit` and their parents, rank - bit.
Step level(uint32_t p, uint32_t bit, bool up) {
  Step step;
  for (uint32_t r = bit; r < p; r += 2 * bit) {
    step.moves.push_back(up ? Move{r, r - bit, 0, 1, true} : Move{r - bit, r, 0, 1, false});
  }
  return step;
}

bool supported_by_tree(CollKind kind, const GroupShape&) {
  return kind == CollKind::all_reduce || kind == CollKind::broadcast || kind == CollKind::reduce;
}

Schedule schedule_tree(CollKind kind, const GroupShape& group) {
  Schedule s;
  const uint32_t p = s.ranks = group.ranks;
  uint32_t top = 1;
  while (top < p) top *= 2;
  if (kind != CollKind::broadcast) {
    for (uint32_t bit = 1; bit < p; bit *= 2) s.steps.push_back(level(p, bit, true));
  }
  if (kind != CollKind::reduce) {
    for (uint32_t bit = top / 2; bit >= 1; bit /= 2) s.steps.push_back(level(p, bit, false));
  }
  return s;
}

}  // namespace

void register_tree(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"tree", "binomial tree of whole buffers: few steps, root's links carry log2(ranks) copies",
                supported_by_tree, schedule_tree});
}

}  // namespace tandem::schemes

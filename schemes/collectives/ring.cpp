// SPDX-License-Identifier: Apache-2.0
// Patarasu and Yuan 2009: every rank sends to its right neighbour only. Bandwidth-optimal for all-reduce
// (each rank sends 2(p-1)/p of the buffer), latency linear in p. Broadcast and reduce are a pipelined chain.
#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

/// One step of the ring: rank r passes block (r + shift) mod p to the right.
Step pass(uint32_t p, uint32_t shift, bool reduce) {
  Step step;
  for (uint32_t r = 0; r < p; ++r) step.moves.push_back({r, (r + 1) % p, (r + shift) % p, 1, reduce});
  return step;
}

/// p - 1 steps in which rank r first passes block (r + start) mod p and then what it just received.
void ring_rounds(Schedule& s, uint32_t start, bool reduce, bool compact) {
  const uint32_t p = s.ranks;
  if (compact) {
    s.steps.push_back(pass(p, start % p, reduce));
    s.steps.back().repeat = p - 1;
    return;
  }
  for (uint32_t i = 0; i + 1 < p; ++i) s.steps.push_back(pass(p, (start + p - i) % p, reduce));
}

/// 0 -> 1 -> ... -> p-1, or backwards for a reduction to 0.
void chain(Schedule& s, bool reduce) {
  constexpr uint32_t kPieces = 64;
  s.pipeline = kPieces;
  for (uint32_t i = 0; i + 1 < s.ranks; ++i) {
    const uint32_t r = s.ranks - 1 - i;
    s.steps.push_back({{reduce ? Move{r, r - 1, 0, 1, true} : Move{i, i + 1, 0, 1, false}}, 1});
  }
}

bool supported_by_ring(CollKind kind, const GroupShape&) { return kind != CollKind::all_to_all; }

Schedule schedule_ring(CollKind kind, const GroupShape& group) {
  Schedule s;
  const uint32_t p = s.ranks = group.ranks;
  if (p == 1) return s;
  if (kind == CollKind::broadcast || kind == CollKind::reduce) {
    chain(s, kind == CollKind::reduce);
    return s;
  }
  s.chunks = p;
  // Starting with the block before its own, a rank ends the first phase with the sum of its own block.
  if (kind != CollKind::all_gather) ring_rounds(s, p - 1, true, group.compact);
  if (kind != CollKind::reduce_scatter) ring_rounds(s, 0, false, group.compact);
  return s;
}

}  // namespace

void register_ring(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"ring", "neighbours in a circle: least bytes per rank, latency linear in ranks",
                supported_by_ring, schedule_ring});
}

}  // namespace tandem::schemes

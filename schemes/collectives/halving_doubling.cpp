// SPDX-License-Identifier: Apache-2.0
// Rabenseifner 2004: recursive halving (reduce-scatter), then recursive doubling (all-gather). 2 log2(p)
// steps with the ring's bytes when p is a power of two; otherwise the surplus ranks first lend their buffers
// to a neighbour and get the result back (2 more steps of whole buffers).
#include <bit>

#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

/// Exchange at distance `d` among q = 2^k ranks; rank r (named by `rank`) keeps or sends aligned halves of 2d
/// blocks.
template <typename Rename>
Step exchange(uint32_t q, uint32_t d, bool halving, Rename rank) {
  Step step;
  for (uint32_t r = 0; r < q; ++r) {
    const uint32_t peer = r ^ d;
    // Halving sends the half that belongs to the peer's side; doubling sends the own, finished half.
    const uint32_t side = halving ? peer : r;
    step.moves.push_back({rank(r), rank(peer), side / d * d, d, halving});
  }
  return step;
}

bool supported_by_halving_doubling(CollKind kind, const GroupShape& group) {
  if (kind == CollKind::all_reduce) return true;
  return (kind == CollKind::reduce_scatter || kind == CollKind::all_gather) &&
         std::has_single_bit(group.ranks);
}

Schedule schedule_halving_doubling(CollKind kind, const GroupShape& group) {
  Schedule s;
  const uint32_t p = s.ranks = group.ranks;
  const uint32_t q = std::bit_floor(p), surplus = p - q;
  s.chunks = q;
  // Ranks 0, 2, .., 2(surplus-1) sit out; 1, 3, .. act for them.
  const auto rank = [&](uint32_t r) { return r < surplus ? 2 * r + 1 : r + surplus; };
  Step lend, give_back;
  for (uint32_t i = 0; i < surplus; ++i) {
    lend.moves.push_back({2 * i, 2 * i + 1, 0, q, true});
    give_back.moves.push_back({2 * i + 1, 2 * i, 0, q, false});
  }
  if (surplus > 0) s.steps.push_back(lend);
  if (kind != CollKind::all_gather) {
    for (uint32_t d = q / 2; d >= 1; d /= 2) s.steps.push_back(exchange(q, d, true, rank));
  }
  if (kind != CollKind::reduce_scatter) {
    for (uint32_t d = 1; d < q; d *= 2) s.steps.push_back(exchange(q, d, false, rank));
  }
  if (surplus > 0) s.steps.push_back(give_back);
  return s;
}

}  // namespace

void register_halving_doubling(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"halving-doubling",
                "recursive halving and doubling: least bytes and logarithmic latency at powers of two",
                supported_by_halving_doubling, schedule_halving_doubling});
}

}  // namespace tandem::schemes

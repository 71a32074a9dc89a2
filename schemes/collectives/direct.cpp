// SPDX-License-Identifier: Apache-2.0
// Every pair at once, each with its own block: one step per phase and the ring's bytes, where the links join
// all pairs (NVSwitch, full crossbars). The only all-to-all.
#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

/// All pairs; block `to` travels (to its owner), or block `from` (from its owner).
Step all_pairs(uint32_t p, bool to_owner, bool reduce) {
  Step step;
  for (uint32_t from = 0; from < p; ++from) {
    for (uint32_t hop = 1; hop < p; ++hop) {
      const uint32_t to = (from + hop) % p;
      step.moves.push_back({from, to, to_owner ? to : from, 1, reduce});
    }
  }
  return step;
}

bool supported_by_direct(CollKind kind, const GroupShape&) {
  return kind != CollKind::broadcast && kind != CollKind::reduce;
}

Schedule schedule_direct(CollKind kind, const GroupShape& group) {
  Schedule s;
  const uint32_t p = s.chunks = s.ranks = group.ranks;
  if (p == 1) return s;
  if (kind == CollKind::all_to_all) {
    s.steps.push_back(all_pairs(p, true, false));
    return s;
  }
  if (kind != CollKind::all_gather) s.steps.push_back(all_pairs(p, true, true));
  if (kind != CollKind::reduce_scatter) s.steps.push_back(all_pairs(p, false, false));
  return s;
}

}  // namespace

void register_direct(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"direct", "all pairs at once, one block each: two steps where every pair has its own path",
                supported_by_direct, schedule_direct});
}

}  // namespace tandem::schemes

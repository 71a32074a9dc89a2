// SPDX-License-Identifier: Apache-2.0
// Three stages for nodes of `local` ranks: ring reduce-scatter within the node, ring all-reduce of each share
// between the nodes (all ranks of a node use the network at once), ring all-gather within the node. Only
// 2(nodes-1)/nodes of a buffer leaves a node in all, as with one rank per node.
#include "schemes/collectives/collectives.h"

namespace tandem::schemes {

namespace {

struct Ring {
  uint32_t size;   ///< ranks in the ring
  uint32_t rings;  ///< of them, side by side
  uint32_t block;  ///< chunks in a block
  bool across;     ///< false: ring = node, members consecutive; true: equal places of all nodes
};

/// `size - 1` steps of all rings of the stage; rank at place i first passes block (i + start) of its ring.
void rounds(Schedule& s, const Ring& ring, uint32_t local, uint32_t start, bool reduce, bool compact) {
  for (uint32_t step = 0; step + 1 < ring.size; ++step) {
    Step out;
    for (uint32_t which = 0; which < ring.rings; ++which) {
      const auto rank = [&](uint32_t i) { return ring.across ? i * local + which : which * local + i; };
      // Across nodes only the share of this place moves: its blocks start at which * size.
      const uint32_t base = ring.across ? which * ring.size : 0;
      for (uint32_t i = 0; i < ring.size; ++i) {
        const uint32_t at = (i + start + ring.size - step) % ring.size;
        out.moves.push_back(
            {rank(i), rank((i + 1) % ring.size), (base + at) * ring.block, ring.block, reduce});
      }
    }
    if (compact) out.repeat = ring.size - 1;
    s.steps.push_back(std::move(out));
    if (compact) return;
  }
}

bool supported_by_hierarchical(CollKind kind, const GroupShape& group) {
  return kind == CollKind::all_reduce && group.local >= 1 && group.ranks % group.local == 0;
}

Schedule schedule_hierarchical(CollKind, const GroupShape& group) {
  Schedule s;
  s.ranks = group.ranks;
  const uint32_t local = group.local, nodes = group.ranks / local;
  s.chunks = local * nodes;
  const Ring within{local, nodes, nodes, false}, across{nodes, local, 1, true};
  rounds(s, within, local, local - 1, true, group.compact);
  rounds(s, across, local, nodes - 1, true, group.compact);
  rounds(s, across, local, 0, false, group.compact);
  rounds(s, within, local, 0, false, group.compact);
  return s;
}

}  // namespace

void register_hierarchical(Registry<CollectiveAlgorithm>& registry) {
  registry.add({"hierarchical",
                "rings within nodes and rings between them: the network carries each byte once per node",
                supported_by_hierarchical, schedule_hierarchical});
}

}  // namespace tandem::schemes

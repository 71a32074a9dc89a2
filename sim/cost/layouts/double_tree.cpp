// SPDX-License-Identifier: Apache-2.0
// Double binary trees over nodes, chains inside them, as NCCL has them.
#include <algorithm>
#include <bit>

#include "sim/cost/layout.h"
#include "sim/cost/nccl_tuning.h"
#include "sim/cost/node_trees.h"

namespace tandem::sim {
namespace {

/// Trees join nodes; inside one they would be chains.
bool can_double_tree(const LayoutInput& input) {
  return input.kind == CollKind::all_reduce && input.group.nodes() > 1 && input.library.packs_rings;
}

Pattern trees(const LayoutInput& input) {
  const System& system = input.system;
  const Group& group = input.group;
  const std::vector<Ring>& rings = input.rings();
  Pattern p;
  for (const Ring& ring : rings) {
    for (std::size_t node = 0; node < group.nodes(); ++node) {
      if (!group.lays(node)) continue;
      const auto& members = group.by_node[node];
      for (std::size_t k = 0; k + 1 < members.size(); ++k) {
        const VertexId a = members[group.uniform ? ring.order[k] : k];
        const VertexId b = members[group.uniform ? ring.order[k + 1] : k + 1];
        for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
          const Route r = system.route(from, to);
          const HopClass hop = hop_class(system, from, to, r);
          p.add(r, hop, ring.share, system);
          if (node > 0 || &ring != &rings.front()) continue;
          p.steps[static_cast<std::size_t>(hop)] += 1;
          p.wire[static_cast<std::size_t>(hop)] += r.latency.seconds();
        }
      }
    }
    add_node_trees(system, group, p, ring.share, [&](std::size_t node) {
      return group.by_node[node][group.uniform ? ring.order.front() : 0];
    });
  }
  add_node_tree_steps(system, group, p);
  return p;
}

/// Seconds per byte of the busiest network link.
double busiest(const Pattern& p, const System& system) {
  double most = 0;
  for (const auto& [link, weight] : p.load[static_cast<std::size_t>(HopClass::network)]) {
    most = std::max(most, weight / system.usable(link));
  }
  return most;
}

Pattern lay_double_tree(const LayoutInput& input) {
  Pattern p = trees(input);
  p.efficiency = input.library.tree_efficiency;
  p.fabric_efficiency = nccl_tuning().tree.share / input.library.tree_efficiency;
  p.tree_depth =
      static_cast<double>(input.group.by_node.front().size() - 1 + std::bit_width(input.group.nodes()) - 1);
  p.tree_channels = 2 * static_cast<double>(input.rings().size());
  if (!input.library.tree_as_ring) return p;
  const double least =
      busiest(ring_pattern(input.system, input.group, input.kind, input.rings(), true), input.system);
  const double own = busiest(p, input.system);
  for (auto& [link, weight] : p.load[static_cast<std::size_t>(HopClass::network)])
    weight *= std::max(1.0, least / own);
  return p;
}

}  // namespace

void register_double_tree(Registry<Layout>& registry) {
  registry.add(
      {.name = "double-tree",
       .summary = "two binary trees over the nodes, each for half of the data, and chains inside them",
       .can = can_double_tree,
       .lay = lay_double_tree,
       .replaces_schedule = [](const Library& library) { return library.packs_rings; }});
}

}  // namespace tandem::sim

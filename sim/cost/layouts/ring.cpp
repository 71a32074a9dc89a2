// SPDX-License-Identifier: Apache-2.0
// Rings: the loads of node-by-node rings over the links.
#include <algorithm>
#include <limits>
#include <set>

#include "sim/cost/layout.h"
#include "sim/cost/tuner.h"

namespace tandem::sim {
namespace {

/// One hop of the ring and how many hops of the whole ring it stands for.
struct RingHop {
  VertexId from = 0, to = 0;
  double stands_for = 1;
};

/// All hops of the ring in order, or those of representative nodes when the group is large.
std::vector<RingHop> hops(const System& system, const Group& group, const Ring& ring) {
  std::vector<RingHop> out;
  const std::size_t nodes = group.nodes();
  const bool all = group.ranks() <= kEnumeratedRanks || !group.uniform;
  const auto at = [&](std::size_t node, std::size_t k) {
    const auto& members = group.by_node[node];
    return group.uniform ? members[ring.order[k]] : members[k];
  };
  const auto size = [&](std::size_t node) { return group.by_node[node].size(); };
  const auto inside = [&](std::size_t node, double stands_for) {
    for (std::size_t k = 0; k + 1 < size(node); ++k)
      out.push_back({at(node, k), at(node, k + 1), stands_for});
  };
  const auto across = [&](std::size_t a, std::size_t b, double stands_for) {
    out.push_back({at(a, size(a) - 1), at(b, 0), stands_for});
  };
  if (all) {
    for (std::size_t i = 0; i < nodes; ++i) {
      inside(i, 1);
      across(i, (i + 1) % nodes, 1);
    }
  } else {
    // One hop per leaf leads to the next leaf of the network; the first that does stands for them.
    for (const Group::Run& run : group.runs) {
      const std::size_t last = run.first + run.nodes - 1;
      const std::size_t leaf = std::min(nodes_of_leaf(system, group), run.nodes - 1);
      const auto crossings = static_cast<double>(leaf > 1 ? (run.nodes - 1) / leaf : 0);
      inside(run.first, static_cast<double>(run.nodes));
      if (run.nodes > 1) across(run.first, run.first + 1, static_cast<double>(run.nodes - 1) - crossings);
      if (crossings > 0) across(run.first + leaf - 1, run.first + leaf, crossings);
      across(last, (last + 1) % nodes, 1);
    }
  }
  return out;
}

}  // namespace

Pattern ring_pattern(const System& system, const Group& group, CollKind kind, const std::vector<Ring>& rings,
                     bool on_rails) {
  const auto n = static_cast<double>(group.ranks());
  const bool chain = kind == CollKind::broadcast || kind == CollKind::reduce;
  const double sent = chain                          ? n
                      : kind == CollKind::all_reduce ? 2 * (n - 1)
                                                     : n - 1;  // chunks of 1/n per rank
  const double steps = chain ? n - 1 : sent;
  Pattern p;
  p.ring_hop = sent / n;
  p.one_way = chain;
  // The last chunk that comes is put down with nothing to send meanwhile.
  p.own_copy = chain ? 0 : 1 / n;
  for (const Ring& ring : rings) {
    for (const RingHop& h : hops(system, group, ring)) {
      const Route r = on_rails ? route_by_rail(system, h.from, h.to) : system.route(h.from, h.to);
      const HopClass hop = hop_class(system, h.from, h.to, r);
      p.add(h.from, h.to, r, hop, ring.share * sent / n, system);
      if (&ring != &rings.front()) continue;
      // A chunk passes every hop of the ring equally often: steps and latency add up along its way.
      p.steps[static_cast<std::size_t>(hop)] += steps / n * h.stands_for;
      p.wire[static_cast<std::size_t>(hop)] += steps / n * h.stands_for * r.latency.seconds();
    }
  }
  return p;
}

void register_ring(Registry<Layout>& registry) {
  registry.add({.name = "ring",
                .summary = "rings through the nodes, packed on the links inside them",
                .can = [](const LayoutInput& input) { return input.kind != CollKind::all_to_all; },
                .lay =
                    [](const LayoutInput& input) {
                      return ring_pattern(input.system, input.group, input.kind, input.rings(),
                                          input.library.packs_rings);
                    },
                .last_resort = true,
                .expected = [](const Tuner& tuner, CollKind kind, std::string_view protocol,
                               double bytes) { return tuner.ring(kind, protocol, bytes); }});
}

}  // namespace tandem::sim

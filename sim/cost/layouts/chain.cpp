// SPDX-License-Identifier: Apache-2.0
// The tree of a library inside one node: a chain, reduced upwards and broadcast downwards. It is the ring
// without its worst hop, so that two members of a node with a poor way between them need not use it.
#include <algorithm>

#include "sim/cost/layout.h"

namespace tandem::sim {
namespace {

/// Before 2.5 NCCL ran rings alone inside a node (src/misc/rings.cc of 2.4.7). Behind a switch all hops cost
/// the same, and a ring needs less of them. Families of libraries without a chain_step have none: an
/// all-reduce of 8x L40S by 2.27 is as slow as its ring.
bool can_chain(const LayoutInput& input) {
  constexpr int kSince = 205;
  return input.kind == CollKind::all_reduce && input.group.nodes() == 1 && input.group.ranks() > 2 &&
         input.library.packs_rings && input.library.chain_step > 0 && input.library.version >= kSince &&
         !has_switch(input.system, input.group);
}

/// Seconds per byte of payload that the links and routes of a pattern take.
double chain_seconds(const Pattern& p, const System& system) {
  double most = 0;
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    for (const auto& [link, weight] : p.load[c]) most = std::max(most, weight / system.usable(link));
    if (p.cap[c] > 0) most = std::max(most, 1 / p.cap[c]);
  }
  return most;
}

/// The chains that are left of the rings where each leaves out its hop number `cut`.
Pattern chains(const LayoutInput& input, std::size_t cut) {
  const auto& members = input.group.by_node.front();
  const std::size_t n = members.size();
  Pattern p;
  for (const Ring& ring : input.rings()) {
    for (std::size_t k = 1; k < n; ++k) {
      const VertexId a = members[ring.order[(cut + k) % n]], b = members[ring.order[(cut + k + 1) % n]];
      for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
        const Route r = input.system.route(from, to);
        const HopClass hop = hop_class(input.system, from, to, r);
        p.add(r, hop, ring.share, input.system);
        if (&ring != &input.rings().front()) continue;
        p.steps[static_cast<std::size_t>(hop)] += 1;
        p.wire[static_cast<std::size_t>(hop)] += r.latency.seconds();
      }
    }
  }
  return p;
}

Pattern lay_chain(const LayoutInput& input) {
  Pattern best = chains(input, 0);
  for (std::size_t cut = 1; cut < input.group.ranks(); ++cut) {
    Pattern p = chains(input, cut);
    if (chain_seconds(p, input.system) < chain_seconds(best, input.system)) best = std::move(p);
  }
  best.tree_in_node = true;
  return best;
}

/// A tree pays for long messages alone: only the protocol for those, at the tree's own latency per hop.
std::vector<Protocol> chain_protocols(const Library& library) {
  Protocol simple = library.protocols.back();
  for (double& step : simple.step) step = std::max(step, library.chain_step);
  return {simple};
}

}  // namespace

void register_chain(Registry<Layout>& registry) {
  registry.add({.name = "chain",
                .summary = "the tree inside one node: its ring without the worst hop, up and down",
                .can = can_chain,
                .lay = lay_chain,
                .protocols = chain_protocols});
}

}  // namespace tandem::sim

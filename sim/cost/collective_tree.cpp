// SPDX-License-Identifier: Apache-2.0
// Double binary trees over nodes, with chains (tree) or in-switch reduction (nvls) inside them.
#include <algorithm>
#include <bit>

#include "sim/cost/link_pattern.h"

namespace tandem::sim {
namespace {

/// Parent of `r` in a binary tree over 0..n-1 whose leaves are the odd ranks; -1 for the root 0.
int64_t parent_in_tree(int64_t r, int64_t n) {
  if (r == 0) return -1;
  const int64_t bit = r & -r;
  const int64_t up = (r ^ bit) | (bit << 1);
  return up < n ? up : r ^ bit;
}

/// The same in the second tree: mirrored for even n, shifted by one for odd n, so that inner nodes of one
/// tree are leaves of the other.
int64_t parent_in_twin(int64_t r, int64_t n) {
  if (n % 2 == 0) {
    const int64_t up = parent_in_tree(n - 1 - r, n);
    return up < 0 ? -1 : n - 1 - up;
  }
  const int64_t up = parent_in_tree((r - 1 + n) % n, n);
  return up < 0 ? -1 : (up + 1) % n;
}

/// Loads of all-reducing `share` of the payload over the nodes, with `head(node)` speaking for each.
template <typename Head>
void add_trees(const System& system, const Group& group, Pattern& p, double share, Head&& head) {
  const auto n = static_cast<int64_t>(group.nodes());
  const bool all = group.ranks() <= kEnumeratedRanks;
  const auto shown = [&](int64_t node) { return all || node == 1 || node == 2; };
  for (int64_t r = 0; r < n; ++r) {
    for (const int64_t up : {parent_in_tree(r, n), parent_in_twin(r, n)}) {
      if (up < 0 || !(shown(r) || shown(up))) continue;
      const VertexId child = head(static_cast<std::size_t>(r)), parent = head(static_cast<std::size_t>(up));
      p.add(child, parent, system.route(child, parent), HopClass::network, share / 2, system);
      p.add(parent, child, system.route(parent, child), HopClass::network, share / 2, system);
    }
  }
}

void add_tree_steps(const System& system, const Group& group, Pattern& p) {
  const auto depth = static_cast<double>(std::bit_width(group.nodes()) - 1);
  const Route r = system.route(group.by_node[0].front(), group.by_node[1].front());
  p.steps[static_cast<std::size_t>(HopClass::network)] += 2 * depth;
  p.wire[static_cast<std::size_t>(HopClass::network)] += 2 * depth * r.latency.seconds();
}

}  // namespace

Pattern tree_pattern(const System& system, const Group& group, const std::vector<Ring>& rings) {
  Pattern p;
  p.algorithm = "double-tree";
  const bool all = group.ranks() <= kEnumeratedRanks;
  for (const Ring& ring : rings) {
    for (std::size_t node = 0; node < (all ? group.nodes() : std::min<std::size_t>(3, group.nodes()));
         ++node) {
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
    if (group.nodes() > 1) {
      add_trees(system, group, p, ring.share, [&](std::size_t node) {
        return group.by_node[node][group.uniform ? ring.order.front() : 0];
      });
    }
  }
  if (group.nodes() > 1) add_tree_steps(system, group, p);
  return p;
}

Pattern switch_pattern(const System& system, const Group& group) {
  Pattern p;
  p.algorithm = "nvls";
  p.heads = std::min<std::size_t>(group.by_node.front().size(), 32);  // NCCL has no more arms
  p.steps[static_cast<std::size_t>(HopClass::fabric)] = 1;
  const bool all = group.ranks() <= kEnumeratedRanks;
  for (std::size_t node = 0; node < (all ? group.nodes() : std::min<std::size_t>(3, group.nodes())); ++node) {
    const auto& members = group.by_node[node];
    const auto g = static_cast<double>(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      // The switch reads every member's data once and returns one share reduced; storing is the reverse.
      const Route r = system.route(members[i], members[(i + 1) % members.size()]);
      const Route back = system.route(members[(i + 1) % members.size()], members[i]);
      Route up, down;
      up.links = {r.links.front()};
      down.links = {back.links.back()};
      p.add(up, HopClass::fabric, (g + 1) / g, system);
      p.add(down, HopClass::fabric, (g + 1) / g, system);
    }
  }
  if (group.nodes() > 1) {
    const std::size_t g = group.by_node.front().size();
    for (std::size_t i = 0; i < g; ++i) {
      add_trees(system, group, p, 1 / static_cast<double>(g), [&](std::size_t node) {
        const auto& members = group.by_node[node];
        return members[i % members.size()];
      });
    }
    add_tree_steps(system, group, p);
  }
  return p;
}

}  // namespace tandem::sim

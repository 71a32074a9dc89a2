// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/node_trees.h"

#include <algorithm>
#include <bit>

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

}  // namespace

void add_node_trees(const System& system, const Group& group, Pattern& p, double share,
                    const NodeHead& head) {
  const auto n = static_cast<int64_t>(group.nodes());
  const bool all = group.ranks() <= kEnumeratedRanks;
  // Of large groups the edges of the first two leaves, as an aligned run of nodes has few that leave it, and
  // some of each kind of nodes. The root is no pattern for others.
  constexpr int64_t kMostShown = 512;
  const int64_t leaf = std::clamp<int64_t>(static_cast<int64_t>(nodes_of_leaf(system, group)), 2, kMostShown);
  const auto shown = [&](int64_t node) {
    return all || node < 2 * leaf || group.lays(static_cast<std::size_t>(node));
  };
  for (int64_t r = 0; r < n; ++r) {
    for (const int64_t up : {parent_in_tree(r, n), parent_in_twin(r, n)}) {
      if (up < 0 || !(shown(r) || shown(up))) continue;
      const VertexId child = head(static_cast<std::size_t>(r)), parent = head(static_cast<std::size_t>(up));
      p.add(child, parent, system.route(child, parent), HopClass::network, share / 2, system);
      p.add(parent, child, system.route(parent, child), HopClass::network, share / 2, system);
    }
  }
}

void add_node_tree_steps(const System& system, const Group& group, Pattern& p) {
  const auto depth = static_cast<double>(std::bit_width(group.nodes()) - 1);
  const Route r = system.route(group.by_node[0].front(), group.by_node[1].front());
  p.steps[static_cast<std::size_t>(HopClass::network)] += 2 * depth;
  p.wire[static_cast<std::size_t>(HopClass::network)] += 2 * depth * r.latency.seconds();
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// All-reduces between nodes over two binary trees, such that a node that is inner in one is a leaf of the
// other (Sanders, Speck and Traff 2009; NCCL since 2.4).
#include <functional>

#include "sim/cost/link_pattern.h"

namespace tandem::sim {

/// The member that speaks for a node.
using NodeHead = std::function<VertexId(std::size_t node)>;

/// Adds the loads of all-reducing `share` of the payload over the nodes; of groups above kEnumeratedRanks
/// those of the network's first two leaves alone. Needs several nodes.
void add_node_trees(const System& system, const Group& group, Pattern& p, double share, const NodeHead& head);
/// Adds the steps up and down the trees.
void add_node_tree_steps(const System& system, const Group& group, Pattern& p);

}  // namespace tandem::sim

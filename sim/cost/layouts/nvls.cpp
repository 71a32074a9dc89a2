// SPDX-License-Identifier: Apache-2.0
// Reduction and multicast in the NVLink switch inside a node (NVLS), double binary trees between nodes.
#include <algorithm>

#include "sim/cost/layout.h"
#include "sim/cost/nccl_tuning.h"
#include "sim/cost/node_trees.h"
#include "sim/cost/tuner.h"

namespace tandem::sim {
namespace {

bool can_nvls(const LayoutInput& input) {
  return input.kind == CollKind::all_reduce && input.library.switch_efficiency > 0 &&
         input.group.ranks() >= 4 && has_switch(input.system, input.group);
}

Pattern lay_nvls(const LayoutInput& input) {
  const System& system = input.system;
  const Group& group = input.group;
  Pattern p;
  p.heads = std::min(group.by_node.front().size(), nccl_tuning().in_switch.most_heads);
  p.steps[static_cast<std::size_t>(HopClass::fabric)] = 1;
  for (std::size_t node = 0; node < group.nodes(); ++node) {
    if (!group.lays(node)) continue;
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
    // Only heads have a share of the trees, however many NICs there are.
    for (std::size_t i = 0; i < p.heads; ++i) {
      add_node_trees(system, group, p, 1 / static_cast<double>(p.heads), [&](std::size_t node) {
        const auto& members = group.by_node[node];
        return members[i * members.size() / p.heads];
      });
    }
    add_node_tree_steps(system, group, p);
  }
  return p;
}

/// The switch reduces bulk stores only; its own figures stand for the fabric.
std::vector<Protocol> protocols(const Library& library) {
  Protocol bulk = library.protocols.back();
  bulk.base = bulk.step[0] = 0;
  bulk.efficiency[0] = library.switch_efficiency;
  return {bulk};
}

double expected(const Tuner& tuner, CollKind kind, std::string_view protocol, double bytes) {
  return tuner.in_switch(kind, protocol, bytes);
}

}  // namespace

void register_nvls(Registry<Layout>& registry) {
  registry.add({.name = "nvls",
                .summary = "reduced and multicast by the NVLink switch, double trees between nodes",
                .can = can_nvls,
                .lay = lay_nvls,
                .protocols = protocols,
                .expected = expected});
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_pattern.h"

#include <algorithm>

namespace tandem::sim {

bool fabric_kind(std::string_view kind) {
  for (const std::string_view k : {"nvlink", "nvswitch", "xgmi", "infinity", "ici", "c2c"}) {
    if (kind.starts_with(k)) return true;
  }
  return false;
}

uint32_t resource_of(const System& system, LinkId link) { return system.pool(link); }

HopClass hop_class(const System& system, VertexId a, VertexId b, const Route& route) {
  if (system.node_of(a) != system.node_of(b)) return HopClass::network;
  if (route.staged > 0) return HopClass::host;
  const bool fabric = std::all_of(route.links.begin(), route.links.end(),
                                  [&](LinkId l) { return fabric_kind(system.link_kind(l)); });
  return fabric ? HopClass::fabric : HopClass::pcie;
}

VertexId twin_of(const System& system, VertexId v, VertexId beside) {
  return system.vertex(system.node_of(beside), v - system.vertex(system.node_of(v), 0));
}

Route route_by_rail(const System& system, VertexId from, VertexId to) {
  const VertexId neighbour = twin_of(system, to, from);
  if (neighbour == from || system.node_of(from) == system.node_of(to)) return system.route(from, to);
  Route out = system.route(from, neighbour);
  if (hop_class(system, from, neighbour, out) != HopClass::fabric) return system.route(from, to);
  const Route rest = system.route(neighbour, to);
  out.links.insert(out.links.end(), rest.links.begin(), rest.links.end());
  out.latency += rest.latency;
  out.staged = rest.staged;
  out.cap = rest.cap;
  return out;
}

void Pattern::add(const Route& route, HopClass hop, double weight, const System& system) {
  const auto c = static_cast<std::size_t>(hop);
  for (const LinkId link : route.links) load[c][resource_of(system, link)] += weight;
  if (route.cap > 0 && weight > 0) {
    const double limit = route.cap / weight;
    cap[c] = cap[c] == 0 ? limit : std::min(cap[c], limit);
  }
}

void Pattern::add(VertexId from, VertexId to, const Route& route, HopClass hop, double weight,
                  const System& system) {
  add(route, hop, weight, system);
  if (hop != HopClass::network) return;
  ends[from].sent += weight;
  ends[to].received += weight;
}

Group make_group(const System& system, std::span<const VertexId> members) {
  Group g;
  g.members.assign(members.begin(), members.end());
  std::map<int64_t, std::size_t> index;
  for (const VertexId v : members) {
    const auto [at, fresh] = index.emplace(system.node_of(v), g.by_node.size());
    if (fresh) g.by_node.emplace_back();
    g.by_node[at->second].push_back(v);
  }
  const auto local = [&](VertexId v) { return v - system.vertex(system.node_of(v), 0); };
  const auto kind = [&](std::size_t node) { return system.kind_of(g.by_node[node].front()); };
  for (std::size_t node = 0; node < g.nodes(); ++node) {
    if (node == 0 || kind(node) != kind(node - 1)) g.runs.push_back({node, 0});
    ++g.runs.back().nodes;
  }
  g.uniform = std::all_of(g.by_node.begin(), g.by_node.end(), [&](const auto& node) {
    const bool same = system.same_shape(system.kind_of(node.front()), kind(0));
    return same && std::equal(node.begin(), node.end(), g.by_node.front().begin(), g.by_node.front().end(),
                              [&](VertexId a, VertexId b) { return local(a) == local(b); });
  });
  return g;
}

bool Group::lays(std::size_t node) const {
  if (ranks() <= kEnumeratedRanks) return true;
  return std::any_of(runs.begin(), runs.end(), [&](const Run& r) {
    return node >= r.first && node < r.first + std::min<std::size_t>(3, r.nodes);
  });
}

std::size_t nodes_of_leaf(const System& system, const Group& group) {
  if (group.nodes() < 2) return 1;
  const VertexId first = group.by_node.front().front();
  const int64_t home = system.node_of(first);
  for (const LinkId link : system.route(first, group.by_node.back().front()).links) {
    const auto [begin, end] = system.nodes_below(link);
    if (end - begin < 2 || home < begin || home >= end) continue;
    const auto out =
        std::find_if(group.by_node.begin(), group.by_node.end(),
                     [&, end = end](const auto& node) { return system.node_of(node.front()) >= end; });
    return static_cast<std::size_t>(out - group.by_node.begin());
  }
  return 1;
}

bool has_switch(const System& system, const Group& group) {
  for (const auto& node : group.by_node) {
    if (node.size() < 2) return false;
    const Route r = system.route(node[0], node[1]);
    if (r.links.size() != 2 || hop_class(system, node[0], node[1], r) != HopClass::fabric) return false;
    const auto& vertices = system.vertices(system.kind_of(node[0]));
    if (std::none_of(vertices.begin(), vertices.end(),
                     [](const Vertex& v) { return v.kind == VertexKind::nvswitch; }))
      return false;
    if (group.uniform) break;
  }
  return true;
}

}  // namespace tandem::sim

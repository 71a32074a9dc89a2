// SPDX-License-Identifier: Apache-2.0
#include "topologies/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <limits>
#include <mutex>

namespace tandem::topologies {

std::string_view name(Reach reach) {
  switch (reach) {
    case Reach::none:
      return "none";
    case Reach::pcie_switch:
      return "switch";
    case Reach::host_bridge:
      return "host_bridge";
    case Reach::system:
      return "system";
  }
  return "";
}

Reach parse_reach(const Json& value) {
  const std::string& text = value.as_text();
  for (const Reach reach : {Reach::none, Reach::pcie_switch, Reach::host_bridge, Reach::system}) {
    if (text == name(reach)) return reach;
  }
  const std::vector<std::string> valid = {"none", "switch", "host_bridge", "system"};
  value.fail(fmt::format("\"{}\" is not a reach.{} Valid: none, switch, host_bridge, system", printable(text),
                         did_you_mean(text, valid)));
}

namespace {

struct EdgeTag {
  uint32_t link;
};
using BoostGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, EdgeTag>;

/// Path cost: hops first, then the narrowest link. min() makes the second part non-additive, but cutting a
/// shortest path leaves shortest paths, and widening a prefix never narrows the whole, so Dijkstra is exact.
struct Cost {
  int hops = std::numeric_limits<int>::max();
  double width = 0;
};
struct Shorter {
  bool operator()(const Cost& a, const Cost& b) const {
    return a.hops != b.hops ? a.hops < b.hops : a.width > b.width;
  }
};
struct Extend {
  Cost operator()(const Cost& a, const Cost& b) const {
    if (a.hops == std::numeric_limits<int>::max()) return a;
    return {a.hops + b.hops, std::min(a.width, b.width)};
  }
};

/// Keeps the edges that leave the start or a vertex that forwards.
struct Forwards {
  const BoostGraph* graph = nullptr;
  const std::vector<char>* transit = nullptr;
  uint32_t start = 0;
  bool operator()(const BoostGraph::edge_descriptor& e) const {
    const auto from = boost::source(e, *graph);
    return from == start || (*transit)[from] != 0;
  }
};

constexpr uint32_t kNoLink = UINT32_MAX;

}  // namespace

struct NodeTemplate::Graph {
  BoostGraph graph;
  std::vector<char> transit;
  std::vector<int> component;
  /// Of one source: the link by which each vertex is entered, and its cost.
  struct Tree {
    std::once_flag once;
    std::vector<uint32_t> by;
    std::vector<Cost> cost;
  };
  mutable std::vector<Tree> trees;

  explicit Graph(std::size_t n) : graph(n), transit(n, 0), component(n, 0), trees(n) {}
};

NodeTemplate::NodeTemplate() = default;
NodeTemplate::~NodeTemplate() = default;
NodeTemplate::NodeTemplate(NodeTemplate&&) noexcept = default;
NodeTemplate& NodeTemplate::operator=(NodeTemplate&&) noexcept = default;

double NodeTemplate::width(uint32_t link) const {
  const NodeLink& l = links[link];
  const LinkClass& c = classes[l.link_class];
  return c.bandwidth.bytes_per_second * c.achieved * l.lanes * l.left;
}

void NodeTemplate::finish() {
  graph_ = std::make_unique<Graph>(vertices.size());
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> cables(vertices.size());
  for (uint32_t i = 0; i < links.size(); ++i) {
    if (links[i].left == 0) continue;
    boost::add_edge(links[i].from, links[i].to, EdgeTag{i}, graph_->graph);
    if (i % 2 == 0) boost::add_edge(links[i].from, links[i].to, cables);
  }
  boost::connected_components(cables, graph_->component.data());
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    const VertexKind k = vertices[v].kind;
    graph_->transit[v] = k == VertexKind::cpu || k == VertexKind::pcie_switch || k == VertexKind::nvswitch ||
                         (through_gpus && k == VertexKind::gpu);
  }
}

namespace {

void grow_tree(const NodeTemplate& node, const BoostGraph& graph, const std::vector<char>& transit,
               uint32_t start, std::vector<uint32_t>& by, std::vector<Cost>& cost) {
  using Filtered = boost::filtered_graph<BoostGraph, Forwards>;
  const Filtered view(graph, Forwards{&graph, &transit, start});
  std::vector<std::size_t> from(node.vertices.size());
  cost.assign(node.vertices.size(), Cost{});
  const auto weight = boost::make_function_property_map<BoostGraph::edge_descriptor>(
      [&](const BoostGraph::edge_descriptor& e) {
        return Cost{1, node.width(graph[e].link)};
      });
  by.assign(node.vertices.size(), kNoLink);
  boost::dijkstra_shortest_paths(view, start,
                                 boost::weight_map(weight)
                                     .distance_map(boost::make_iterator_property_map(
                                         cost.begin(), boost::get(boost::vertex_index, graph)))
                                     .predecessor_map(boost::make_iterator_property_map(
                                         from.begin(), boost::get(boost::vertex_index, graph)))
                                     .distance_compare(Shorter{})
                                     .distance_combine(Extend{})
                                     .distance_inf(Cost{})
                                     .distance_zero(Cost{0, std::numeric_limits<double>::infinity()}));
  // Between a vertex and its predecessor there may be cables of several classes: take the widest.
  for (uint32_t i = 0; i < node.links.size(); ++i) {
    const NodeLink& l = node.links[i];
    if (l.left == 0 || l.to == start || from[l.to] != l.from ||
        cost[l.to].hops == std::numeric_limits<int>::max())
      continue;
    if (by[l.to] == kNoLink || node.width(i) > node.width(by[l.to])) by[l.to] = i;
  }
}

}  // namespace

NodeTemplate::Distance NodeTemplate::distance(uint32_t from, uint32_t to) const {
  auto& tree = graph_->trees[from];
  std::call_once(tree.once,
                 [&] { grow_tree(*this, graph_->graph, graph_->transit, from, tree.by, tree.cost); });
  const Cost& cost = tree.cost[to];
  if (cost.hops == std::numeric_limits<int>::max()) return {};
  return {cost.hops, cost.width};
}

NodePath NodeTemplate::path(uint32_t from, uint32_t to) const {
  NodePath out;
  out.found = distance(from, to).hops >= 0;
  if (!out.found) return out;
  const auto& by = graph_->trees[from].by;
  int cpus = 0;
  for (uint32_t at = to; at != from;) {
    const uint32_t link = by[at];
    out.links.push_back(link);
    at = links[link].from;
    if (at == from) break;
    if (vertices[at].kind == VertexKind::cpu) ++cpus;
    if (vertices[at].kind == VertexKind::pcie_switch) out.needs = Reach::pcie_switch;
  }
  if (cpus == 1) out.needs = Reach::host_bridge;
  if (cpus > 1) out.needs = Reach::system;
  std::reverse(out.links.begin(), out.links.end());
  return out;
}

bool NodeTemplate::connected(uint32_t from, uint32_t to) const {
  return graph_->component[from] == graph_->component[to];
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
// Several kinds of nodes in a system's file.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "topologies/system_impl.h"

namespace tandem::topologies {

namespace {

constexpr std::size_t kMostKinds = 64;

/// The same vertices and cables, whatever devices and link figures.
bool same_shape(const NodeTemplate& a, const NodeTemplate& b) {
  return std::equal(a.vertices.begin(), a.vertices.end(), b.vertices.begin(), b.vertices.end(),
                    [](const Vertex& x, const Vertex& y) { return x.kind == y.kind && x.numa == y.numa; }) &&
         std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(),
                    [&](const NodeLink& x, const NodeLink& y) {
                      return x.from == y.from && x.to == y.to && x.lanes == y.lanes &&
                             a.classes[x.link_class].kind == b.classes[y.link_class].kind;
                    });
}

}  // namespace

void SystemReader::add_kind(std::string name, int64_t nodes, Json spec) {
  const int64_t first = out_->kinds.empty() ? 0 : out_->kinds.back().first + out_->kinds.back().nodes;
  NodeKind& kind = out_->kinds.emplace_back();
  kind.name = std::move(name);
  kind.first = first;
  kind.nodes = nodes;
  drafts_.push_back({std::move(spec)});
}

void SystemReader::add_kinds() {
  const Json* kinds = document_.find("node_kinds");
  if (kinds == nullptr) return add_kind("", out_->nodes, document_);
  if (kinds->members().empty() || kinds->members().size() > kMostKinds)
    kinds->fail(fmt::format("1 to {} kinds of nodes are expected", kMostKinds));
  int64_t own = 0;
  for (const auto& [name, spec] : kinds->members()) {
    spec.only({"nodes", "devices", "place", "vertices", "links", "peer_access", "host", "source", "note"});
    own += spec.at("nodes").as_int(1, 1'000'000'000);
    const Json* host = spec.find("host");
    for (const char* key :
         {"shared_storage", "shared_operations", "shared_metadata", "shared_latency", "jitter"}) {
      if (host != nullptr && host->is_object() && host->find(key) != nullptr)
        host->at(key).fail(fmt::format(
            "\"{}\" is one for all nodes: it belongs into the \"host\" next to \"node_kinds\"", key));
    }
  }
  if (own > out_->nodes)
    kinds->fail(
        fmt::format("its kinds have {} nodes, but \"nodes\", which counts all, is {}", own, out_->nodes));
  auto specs = node_specs(document_);
  if (own < out_->nodes) add_kind("", out_->nodes - own, std::move(specs[0].second));
  for (std::size_t k = 1; k < specs.size(); ++k)
    add_kind(specs[k].first, kinds->at(specs[k].first).at("nodes").as_int(), std::move(specs[k].second));
}

void SystemReader::compare() {
  const NodeKind& first = out_->kinds.front();
  const auto trains_as = [](const NodeKind& k) { return k.node.vertices[k.accelerators.front()].kind; };
  for (std::size_t k = 1; k < out_->kinds.size(); ++k) {
    NodeKind& kind = out_->kinds[k];
    const Json& place = document_.at("node_kinds").at(kind.name);
    const std::string other =
        first.name.empty() ? "the nodes outside \"node_kinds\"" : fmt::format("those of \"{}\"", first.name);
    if (kind.accelerators.size() != first.accelerators.size())
      place.fail(
          fmt::format("nodes of \"{}\" have {} accelerators each, {} {}: all kinds must have equally many; "
                      "\"place\" leaves some out",
                      printable(kind.name), kind.accelerators.size(), other, first.accelerators.size()));
    if (trains_as(kind) != trains_as(first))
      place.fail(fmt::format("nodes of \"{}\" train on a {}, {} on a {}: all kinds must train on the same",
                             printable(kind.name), topologies::name(trains_as(kind)), other,
                             topologies::name(trains_as(first))));
    if (kind.ports.size() != first.ports.size())
      place.fail(
          fmt::format("nodes of \"{}\" plug into the network {} times each, {} {} times: all kinds must do "
                      "so equally often",
                      printable(kind.name), kind.ports.size(), other, first.ports.size()));
    kind.host.shared_storage = first.host.shared_storage;
    kind.host.shared_limits = first.host.shared_limits;
    kind.host.jitter = first.host.jitter;
    while (!same_shape(kind.node, out_->kinds[kind.shape].node)) ++kind.shape;
  }
}

void SystemReader::number() {
  uint64_t vertices = 0, links = 0;
  for (NodeKind& kind : out_->kinds) {
    kind.first_vertex = vertices;
    kind.first_link = links;
    vertices += kind.vertices();
    links += kind.links();
  }
  if (out_->network) links += out_->network->link_count();
  if (std::max(vertices, links) > std::numeric_limits<uint32_t>::max())
    throw InputError((document_.find("nodes") != nullptr ? document_.at("nodes") : document_).place(),
                     fmt::format("{} nodes of this system have {} links and vertices, more than 4294967295",
                                 out_->nodes, std::max(vertices, links)));
}

}  // namespace tandem::topologies

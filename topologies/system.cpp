// SPDX-License-Identifier: Apache-2.0
#include "topologies/system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/data.h"
#include "topologies/devices/device_paths.h"
#include "topologies/edits.h"
#include "topologies/import/cards.h"
#include "topologies/system_impl.h"

namespace tandem::topologies {

std::string_view name(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return "gpu";
    case VertexKind::cpu:
      return "cpu";
    case VertexKind::tpu:
      return "tpu";
    case VertexKind::pcie_switch:
      return "pcie_switch";
    case VertexKind::nvswitch:
      return "nvswitch";
    case VertexKind::nic:
      return "nic";
    case VertexKind::memory:
      return "memory";
    case VertexKind::storage:
      return "storage";
  }
  return "";
}

namespace {

bool trains(VertexKind kind) { return kind == VertexKind::gpu || kind == VertexKind::tpu; }

/// The cap that binds, 0 = none.
double tighter(double a, double b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

}  // namespace

std::size_t System::Impl::kind_at(int64_t at_node) const {
  std::size_t k = kinds.size() - 1;
  while (kinds[k].first > at_node) --k;
  return k;
}

const NodeTemplate& System::Impl::node_at(int64_t at_node) const {
  const auto at = odd.find(at_node);
  return at == odd.end() ? kind(at_node).node : at->second.node;
}

uint32_t System::Impl::port_at(int64_t at_node, uint32_t v) const {
  const auto at = odd.find(at_node);
  return at == odd.end() ? kind(at_node).port_of[v] : at->second.port_of[v];
}

System::Impl::Spot System::Impl::vertex_spot(uint64_t id) const {
  std::size_t k = kinds.size() - 1;
  while (kinds[k].first_vertex > id) --k;
  const uint64_t each = kinds[k].node.vertices.size(), rest = id - kinds[k].first_vertex;
  return {&kinds[k], kinds[k].first + static_cast<int64_t>(rest / each), static_cast<uint32_t>(rest % each)};
}

System::Impl::Spot System::Impl::link_spot(uint64_t id) const {
  TANDEM_CHECK(id < node_links());
  std::size_t k = kinds.size() - 1;
  while (kinds[k].first_link > id) --k;
  while (kinds[k].links() == 0) --k;  // that begin where the next does
  const uint64_t each = kinds[k].node.links.size(), rest = id - kinds[k].first_link;
  return {&kinds[k], kinds[k].first + static_cast<int64_t>(rest / each), static_cast<uint32_t>(rest % each)};
}

void System::Impl::append(Route& route, int64_t at_node, const NodePath& path) const {
  const NodeKind& own = kind(at_node);
  const uint64_t base = own.first_link + static_cast<uint64_t>(at_node - own.first) * own.node.links.size();
  for (const uint32_t link : path.links) {
    route.links.push_back(static_cast<LinkId>(base + link));
    route.latency += own.node.classes[own.node.links[link].link_class].latency;
  }
}

void System::Impl::local_route(Route& route, int64_t at_node, uint32_t a, uint32_t b) const {
  if (a == b) return;
  const NodeTemplate& mine = node_at(at_node);
  const NodeKind& own = kind(at_node);
  const NodePath direct = mine.path(a, b);
  const bool peers = trains(mine.vertices[a].kind) && trains(mine.vertices[b].kind);
  const auto own_cap = [&](const std::map<std::pair<uint32_t, uint32_t>, double>& pairs, double others) {
    const auto at = pairs.find({a, b});
    return at != pairs.end() ? at->second : others;
  };
  if (peers && direct.needs > own.peer.reach) {
    append(route, at_node, mine.path(a, own.stage_of[a]));
    append(route, at_node, mine.path(own.stage_of[a], b));
    ++route.staged;
    route.latency += own.peer.staged_latency;
    const bool sockets = direct.needs == Reach::system && own.peer.staged_cap_sockets > 0;
    route.cap = tighter(route.cap, own_cap(own.peer.staged_pairs,
                                           sockets ? own.peer.staged_cap_sockets : own.peer.staged_cap));
    return;
  }
  append(route, at_node, direct);
  const double others = direct.needs >= Reach::host_bridge ? own.peer.through_host_cap : 0;
  if (peers) route.cap = tighter(route.cap, own_cap(own.peer.direct_pairs, others));
}

void System::Impl::edge_route(Route& route, int64_t at_node, uint32_t v, bool out) const {
  const NodeTemplate& mine = node_at(at_node);
  const NodeKind& own = kind(at_node);
  const uint32_t port = own.ports[port_at(at_node, v)];
  if (port == v) return;
  const NodePath direct = out ? mine.path(v, port) : mine.path(port, v);
  // A path without any switch between still needs the PCIe root: "none" means that GPUDirect is off.
  const bool staged = trains(mine.vertices[v].kind) &&
                      (transport.gpudirect == Reach::none || direct.needs > transport.gpudirect);
  if (!staged) return append(route, at_node, direct);
  const uint32_t stage = own.stage_of[v];
  append(route, at_node, mine.path(out ? v : port, stage));
  append(route, at_node, mine.path(stage, out ? port : v));
  ++route.staged;
  route.latency += own.peer.staged_latency;
  route.cap = tighter(route.cap, own.peer.staged_cap);
}

LinkInfo System::Impl::node_link(uint64_t id) const {
  const Spot at = link_spot(id);
  const NodeTemplate& node = at.kind->node;
  const NodeLink& l = node_at(at.node).links[at.local];
  const LinkClass& c = node.classes[l.link_class];
  std::string label = node.vertices[l.from].name + ">" + node.vertices[l.to].name;
  if (nodes > 1) label = fmt::format("node{}/{}", at.node, label);
  return {std::move(label), c.kind,    {c.bandwidth.bytes_per_second * l.lanes * l.left},
          c.achieved,       c.latency, static_cast<LinkId>(c.half_duplex ? id ^ 1 : id),
          l.lanes};
}

System::System(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

System System::load(const std::string& name_or_file, const Sets& sets, const Place& place) {
  return from_json(document(name_or_file, {}, place), sets);
}

namespace {

/// Bandwidth of the link class "pcie" of a node, 0 where there is none.
double pcie_bandwidth(const Json& spec) {
  const Json* links = spec.find("links");
  const Json* pcie = links != nullptr && links->is_object() ? links->find("pcie") : nullptr;
  const Json* rate = pcie != nullptr && pcie->is_object() ? pcie->find("bandwidth") : nullptr;
  return rate != nullptr ? rate->as_bandwidth().bytes_per_second * width_share(*pcie) : 0;
}

/// "links.ib" and the like: what lies between nodes is no class of links, and there are three ways to less.
void check_link_class(const Json& document, const std::string& path, const Place& place) {
  const Json* links = document.is_object() ? document.find("links") : nullptr;
  if (path.rfind("links.", 0) != 0 || links == nullptr || document.find("network") == nullptr) return;
  const std::string kind = path.substr(6, path.find('.', 6) - 6);
  if (links->find(kind) != nullptr || !did_you_mean(kind, links->keys()).empty()) return;
  throw InputError(place,
                   fmt::format("there is no \"{}\" to set. Links of a node: {}. Between nodes "
                               "network.bandwidth=12GB/s is the rate of every port, "
                               "network.oversubscription=1.33 what leaves have too little upwards, and "
                               "faults.node0/nic0=0.75 (or down) strikes one port",
                               printable(kind), fmt::join(links->keys(), ", ")));
}

void change(Json& document, const std::string& path, const std::string& value, const Place& place) {
  if (edit(document, path, value, place)) return;
  check_link_class(document, path, place);
  if (path.rfind("faults.", 0) == 0 && document.is_object() && document.find("faults") == nullptr)
    document.set("faults", Json::make_object(place));  // most files have none
  document.set_path(path, value, place, true);
}

void apply(const System::Sets& sets, Json& document) {
  for (const auto& [path, value] : sets)
    change(document, path, value, Place{std::make_shared<const std::string>(set_option(path, value)), 0, 0});
}

/// A file that only says what differs from another: that one, changed as the command line would.
Json extended(Json own, const std::string& file) {
  const Json* base = own.is_object() ? own.find("extends") : nullptr;
  if (base == nullptr) return own;
  own.only({"name", "extends", "set", "summary", "sources", "unverified", "note"});
  std::string from = base->as_text();
  if (is_device_path(from))
    from = moved_path(from, std::filesystem::path(file).parent_path().string(), nullptr);
  const std::string path = find_data("topologies/systems", "system", from, base->place());
  Json out = Json::load(path);
  if (const Json* again = out.find("extends"))
    again->fail("a system that others extend cannot extend one itself");
  anchor_devices(out, path);
  if (const Json* set = own.find("set")) {
    for (const auto& [key, value] : set->members()) {
      if (!value.is_object()) {
        change(out, key, value.as_text(), value.place());
        continue;
      }
      constexpr std::string_view kParts[] = {"devices",     "vertices", "links",   "faults",
                                             "peer_access", "host",     "network", "communication"};
      if (std::find(std::begin(kParts), std::end(kParts), key) == std::end(kParts))
        value.fail(fmt::format("\"{}\" is no part that can be replaced whole; these are: {}", printable(key),
                               fmt::join(kParts, ", ")));
      out.set(key, value);
    }
  }
  for (const char* key : {"name", "summary"}) out.set(key, own.at(key));
  for (const char* key : {"sources", "unverified", "note"}) {
    if (const Json* value = own.find(key)) out.set(key, *value);
  }
  return out;
}

}  // namespace

Json System::document(const std::string& name_or_file, const Sets& sets, const Place& place) {
  std::optional<Json> document;
  if (!is_device_path(name_or_file) && name_or_file.ends_with('x')) {  // as cards by their number do
    const auto names = list_data("topologies/systems");
    const std::string name = spelled_as(name_or_file, names);
    if (!std::binary_search(names.begin(), names.end(), name)) document = system_of_cards(name_or_file);
  }
  if (!document) {
    const std::string file = find_data("topologies/systems", "system", name_or_file, place);
    document = Json::load(file);
    anchor_devices(*document, file);
    document = extended(std::move(*document), file);
  }
  apply(sets, *document);
  return std::move(*document);
}

System System::with(const Sets& sets) const { return from_json(impl_->file, sets); }

Json System::document(const Sets& sets) const {
  Json out = impl_->file;
  apply(sets, out);
  return out;
}

System System::from_json(Json document, const Sets& sets) {
  document = extended(std::move(document), "");
  Json file = document;
  std::map<std::string, double> before;  // by kind
  if (document.is_object()) {
    for (const auto& [kind, spec] : node_specs(document)) before[kind] = pcie_bandwidth(spec);
  }
  apply(sets, document);
  auto impl = SystemReader::read(document);
  impl->file = std::move(file);
  // What copies through a host reach was measured on the PCIe links of the file; other links, other copies.
  for (const auto& [kind, spec] : node_specs(document)) {
    const double was = before[kind], after = pcie_bandwidth(spec);
    if (was <= 0 || after == was) continue;
    for (NodeKind& own : impl->kinds) {
      if (own.name != kind) continue;
      own.peer.staged_cap *= after / was;
      own.peer.staged_cap_sockets *= after / was;
      own.peer.through_host_cap *= after / was;
      for (auto* pairs : {&own.peer.staged_pairs, &own.peer.direct_pairs}) {
        for (auto& [pair, cap] : *pairs) cap *= after / was;
      }
    }
  }
  return System(std::move(impl));
}

const std::string& System::name() const { return impl_->name; }
const std::string& System::summary() const { return impl_->summary; }
int64_t System::nodes() const { return impl_->nodes; }
std::vector<KindOfNode> System::kinds() const {
  std::vector<KindOfNode> out;
  for (const NodeKind& k : impl_->kinds) out.push_back({k.name, k.first, k.nodes});
  return out;
}
std::size_t System::kind_of(VertexId v) const {
  return static_cast<std::size_t>(impl_->vertex_spot(v).kind - impl_->kinds.data());
}
bool System::same_shape(std::size_t a, std::size_t b) const {
  return impl_->kinds.at(a).shape == impl_->kinds.at(b).shape;
}
const std::vector<Vertex>& System::vertices(std::size_t kind) const {
  return impl_->kinds.at(kind).node.vertices;
}
const std::vector<Device>& System::devices() const { return impl_->devices; }
const std::vector<uint32_t>& System::accelerators(std::size_t kind) const {
  return impl_->kinds.at(kind).accelerators;
}
const HostInfo& System::host(std::size_t kind) const { return impl_->kinds.at(kind).host; }
Bytes System::host_memory(std::size_t kind) const {
  if (host(kind).memory.n > 0) return host(kind).memory;
  Bytes sum;
  for (const Vertex& v : vertices(kind)) {
    if (v.kind != VertexKind::cpu) continue;
    const Device& cpu = devices()[static_cast<std::size_t>(v.device)];
    if (cpu.architecture == "generic") return {};
    sum = sum + cpu.memory;
  }
  return sum;
}
double System::staged_spread(std::size_t kind) const { return impl_->kinds.at(kind).peer.staged_spread; }
const std::vector<std::string>& System::unverified() const { return impl_->unverified; }
const Json& System::communication() const { return impl_->communication; }
std::string_view System::transport() const {
  return impl_->network == nullptr ? std::string_view() : impl_->transport.name;
}
Time System::transport_latency() const {
  return impl_->network == nullptr ? Time() : impl_->transport.latency;
}
const PacketLoss& System::packet_loss() const { return impl_->transport.loss; }

VertexId System::vertex(int64_t node, uint32_t local) const {
  TANDEM_CHECK(node >= 0 && node < nodes());
  const NodeKind& kind = impl_->kind(node);
  TANDEM_CHECK(local < kind.node.vertices.size());
  return static_cast<VertexId>(kind.first_vertex +
                               static_cast<uint64_t>(node - kind.first) * kind.node.vertices.size() + local);
}
int64_t System::node_of(VertexId v) const { return impl_->vertex_spot(v).node; }
const Vertex& System::info(VertexId v) const {
  const Impl::Spot at = impl_->vertex_spot(v);
  return at.kind->node.vertices[at.local];
}
const Device& System::device(VertexId v) const {
  const int32_t index = info(v).device;
  TANDEM_CHECK(index >= 0);
  return impl_->devices[static_cast<std::size_t>(index)];
}
VertexId System::accelerator(int64_t i) const {
  TANDEM_CHECK(i >= 0 && i < accelerator_count());
  const auto per_node = static_cast<int64_t>(accelerators().size());
  return vertex(i / per_node, impl_->kind(i / per_node).accelerators[static_cast<std::size_t>(i % per_node)]);
}
VertexId System::host_of(VertexId v) const {
  const Impl::Spot at = impl_->vertex_spot(v);
  return vertex(at.node, at.kind->host_of[at.local]);
}
std::string System::vertex_name(VertexId v) const {
  return nodes() == 1 ? info(v).name : fmt::format("node{}/{}", node_of(v), info(v).name);
}

std::vector<int64_t> System::torus() const {
  return impl_->network ? impl_->network->sizes() : std::vector<int64_t>{};
}

double System::speed(VertexId v) const {
  const Impl::Spot spot = impl_->vertex_spot(v);
  double out = 1;
  for (const int64_t node : {-1 - static_cast<int64_t>(kind_of(v)), spot.node}) {
    const auto at = impl_->speed.find({node, spot.local});
    if (at != impl_->speed.end()) out *= at->second;
  }
  return out;
}
bool System::uniform() const { return impl_->uniform; }
const std::vector<std::string>& System::faults() const { return impl_->faults; }

std::size_t System::link_count() const {
  return impl_->node_links() + (impl_->network && nodes() > 1 ? impl_->network->link_count() : 0);
}

LinkInfo System::link(LinkId id) const {
  const uint64_t own = impl_->node_links();
  if (id < own) return impl_->node_link(id);
  TANDEM_CHECK(id < link_count());
  return {impl_->network->label(id - own),
          "network",
          impl_->network->bandwidth(id - own),
          impl_->shape.achieved,
          impl_->shape.latency,
          id,
          1};
}

double System::usable(LinkId id) const {
  const uint64_t own = impl_->node_links();
  if (id < own) {
    const Impl::Spot at = impl_->link_spot(id);
    return impl_->node_at(at.node).width(at.local);
  }
  return impl_->network->bandwidth(id - own).bytes_per_second * impl_->shape.achieved;
}

std::string_view System::link_kind(LinkId id) const {
  if (id >= impl_->node_links()) return "network";
  const Impl::Spot at = impl_->link_spot(id);
  const NodeTemplate& node = at.kind->node;
  return node.classes[node.links[at.local].link_class].kind;
}

std::pair<int64_t, int64_t> System::nodes_below(LinkId id) const {
  const uint64_t own = impl_->node_links();
  if (id < own) {
    const int64_t node = impl_->link_spot(id).node;
    return {node, node + 1};
  }
  const NodeRange range = impl_->network->below(id - own);
  return {range.first, range.last};
}

LinkId System::pool(LinkId id) const {
  if (id >= impl_->node_links()) return id;
  const Impl::Spot at = impl_->link_spot(id);
  const NodeTemplate& node = at.kind->node;
  // Both directions of a cable are neighbours, and a node has an even number of links.
  return node.classes[node.links[at.local].link_class].half_duplex ? id & ~LinkId{1} : id;
}

LinkId System::reverse(LinkId id) const {
  return id < impl_->node_links() ? id ^ LinkId { 1 } : id;
}

Route System::route(VertexId a, VertexId b) const {
  Route out;
  const Impl::Spot from = impl_->vertex_spot(a), to = impl_->vertex_spot(b);
  TANDEM_CHECK(from.node < nodes() && to.node < nodes());
  if (from.node == to.node) {
    impl_->local_route(out, from.node, from.local, to.local);
    return out;
  }
  const uint64_t own = impl_->node_links();
  impl_->edge_route(out, from.node, from.local, true);
  std::vector<uint64_t> crossed;
  impl_->network->route({from.node, impl_->port_at(from.node, from.local)},
                        {to.node, impl_->port_at(to.node, to.local)}, crossed);
  for (const uint64_t link : crossed) {
    out.links.push_back(static_cast<LinkId>(own + link));
    out.latency += impl_->shape.latency;
  }
  impl_->edge_route(out, to.node, to.local, false);
  out.latency += impl_->transport.latency;
  out.cap = tighter(out.cap, impl_->transport.flow_cap);
  return out;
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
// The reader of system files.
#include <fmt/format.h>

#include <algorithm>

#include "base/data.h"
#include "topologies/devices/device_power.h"
#include "topologies/ranges.h"
#include "topologies/system_impl.h"

namespace tandem::topologies {

namespace {

constexpr std::size_t kMaxLinks = 1 << 15;  // of one node, both directions

VertexKind parse_vertex_kind(const Json& value) {
  static const std::vector<std::string> valid = {"pcie_switch", "nvswitch", "nic", "memory", "storage"};
  const std::string& text = value.as_text();
  for (const VertexKind kind : {VertexKind::pcie_switch, VertexKind::nvswitch, VertexKind::nic,
                                VertexKind::memory, VertexKind::storage}) {
    if (text == name(kind)) return kind;
  }
  value.fail(
      fmt::format("\"{}\" is not a kind of vertex.{} Valid: pcie_switch, nvswitch, nic, memory, storage",
                  printable(text), did_you_mean(text, valid)));
}

VertexKind vertex_kind(Device::Kind kind) {
  switch (kind) {
    case Device::Kind::gpu:
      return VertexKind::gpu;
    case Device::Kind::cpu:
      return VertexKind::cpu;
    case Device::Kind::tpu:
      return VertexKind::tpu;
  }
  return VertexKind::gpu;
}

Bandwidth positive_bandwidth(const Json& value) {
  const Bandwidth b = value.as_bandwidth();
  if (b.bytes_per_second < 1 || b.bytes_per_second > 1e18)
    value.fail("a bandwidth from 1B/s to 1000000TB/s is needed");
  return b;
}

double optional_cap(const Json& spec, std::string_view key) {
  const Json* value = spec.find(key);
  return value == nullptr ? 0 : positive_bandwidth(*value).bytes_per_second;
}

/// One process over several processors: what they have together.
Device joined(Device device, int64_t sockets, const Json& spec) {
  if (sockets == 1) return device;
  if (device.kind != Device::Kind::cpu)
    spec.at("sockets").fail(fmt::format("{} is no CPU: a process has one", device.name));
  const auto times = static_cast<double>(sockets);
  device.name = fmt::format("{}x {}", sockets, device.name);
  for (FlopRate& peak : device.peak) peak.flops_per_second *= times;
  device.memory_bandwidth.bytes_per_second *= times;
  device.memory = device.memory * sockets;
  device.usable = device.usable * sockets;
  device.units *= static_cast<int>(sockets);
  device.watts *= times;
  return device;
}

/// The device of an entry of "devices".
Device device_of(const Json& spec, int64_t sockets) {
  const Json& model = spec.at("model");
  Device out = joined(Device::load(model.as_text(), model.place()), sockets, spec);
  const Json* watts = spec.find("power_limit");
  return watts == nullptr ? out : with_power_limit(std::move(out), *watts);
}

}  // namespace

void SystemReader::add(const std::string& pattern, const Json& spec, VertexKind kind, int32_t device) {
  const auto names = expand_range(pattern, spec.place());
  const Json* numa = spec.find("numa");
  if (numa != nullptr && numa->is_array() && numa->items().size() != names.size()) {
    numa->fail(fmt::format("{} sockets for the {} vertices of \"{}\": give one number, or one each",
                           numa->items().size(), names.size(), pattern));
  }
  auto& vertices = node().vertices;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (vertices.size() >= kMaxVertices)
      spec.fail(fmt::format("a node has at most {} vertices", kMaxVertices));
    if (!drafts_[at_].index.emplace(names[i], static_cast<uint32_t>(vertices.size())).second) {
      spec.fail(fmt::format("the vertex \"{}\" is declared twice", names[i]));
    }
    int32_t socket = 0;
    if (numa != nullptr) {
      socket = static_cast<int32_t>((numa->is_array() ? numa->items()[i] : *numa).as_int(0, 1023));
    }
    vertices.push_back({names[i], kind, device, socket});
  }
}

double width_share(const Json& link_class) {
  const Json* width = link_class.find("width");
  if (width == nullptr) return 1;
  constexpr int kLanes = 16;
  for (int lanes = kLanes; lanes >= 1; lanes /= 2) {
    if (width->is_text() && width->as_text() == fmt::format("x{}", lanes))
      return static_cast<double>(lanes) / kLanes;
  }
  width->fail("the width of a slot is x16, x8, x4, x2 or x1");
}

void SystemReader::place() {
  const Json* list = spec().find("place");
  if (list == nullptr) return;
  const std::vector<uint32_t> all = std::move(kind().accelerators);
  std::vector<uint32_t>& used = kind().accelerators;
  used.clear();
  for (const Json& pattern : list->items()) {
    for (const uint32_t v : named(pattern)) {
      if (std::find(all.begin(), all.end(), v) == all.end())
        pattern.fail(fmt::format("\"{}\" is no accelerator", node().vertices[v].name));
      if (std::find(used.begin(), used.end(), v) != used.end())
        pattern.fail(fmt::format("\"{}\" is named twice", node().vertices[v].name));
      used.push_back(v);
    }
  }
  if (used.empty()) list->fail("no accelerator is named");
}

void SystemReader::vertices() {
  const Json& devices = spec().at("devices");
  for (const auto& [pattern, device] : devices.members()) {
    device.only({"model", "numa", "sockets", "power_limit", "source", "note"});
    const int64_t sockets = device.integer("sockets", 1, 1, 64);
    const std::string name =
        fmt::format("{} {} {}", sockets, device.at("model").as_text(), device.text("power_limit", ""));
    const auto [at, fresh] = device_index_.emplace(name, static_cast<int32_t>(out_->devices.size()));
    if (fresh) out_->devices.push_back(device_of(device, sockets));
    add(pattern, device, vertex_kind(out_->devices[static_cast<std::size_t>(at->second)].kind), at->second);
  }
  if (const Json* others = spec().find("vertices")) {
    for (const auto& [pattern, vertex] : others->members()) {
      vertex.only({"kind", "numa", "source", "note"});
      add(pattern, vertex, parse_vertex_kind(vertex.at("kind")), -1);
    }
  }
  const auto& all = node().vertices;
  std::vector<uint32_t>& accelerators = kind().accelerators;
  std::vector<uint32_t> cpus;
  for (uint32_t v = 0; v < all.size(); ++v) {
    if (all[v].kind == VertexKind::gpu || all[v].kind == VertexKind::tpu) accelerators.push_back(v);
    if (all[v].kind == VertexKind::cpu) cpus.push_back(v);
  }
  if (accelerators.empty()) accelerators = cpus;
  if (cpus.empty())
    devices.fail("every node needs a CPU: it loads the data and is the last resort for messages");
}

std::vector<uint32_t> SystemReader::named(const Json& pattern) const {
  std::vector<uint32_t> out;
  for (const std::string& each : expand_range(pattern.as_text(), pattern.place())) {
    const auto at = drafts_[at_].index.find(each);
    if (at == drafts_[at_].index.end()) {
      std::vector<std::string> names;
      for (const Vertex& v : node().vertices) names.push_back(v.name);
      pattern.fail(fmt::format("there is no vertex \"{}\".{}", each, did_you_mean(each, names)));
    }
    out.push_back(at->second);
  }
  return out;
}

void SystemReader::cable(uint32_t a, uint32_t b, uint32_t link_class, int lanes, const Place& place) {
  NodeTemplate& node = this->node();
  if (a == b) throw InputError(place, fmt::format("\"{}\" is linked to itself", node.vertices[a].name));
  if (!drafts_[at_].cables.emplace(std::min(a, b), std::max(a, b), link_class).second) {
    throw InputError(
        place, fmt::format("\"{}\" and \"{}\" are linked twice by \"{}\"; parallel cables are the third "
                           "element, as in [\"a\", \"b\", 2]",
                           node.vertices[a].name, node.vertices[b].name, node.classes[link_class].kind));
  }
  if (node.links.size() + 2 > kMaxLinks)
    throw InputError(place, fmt::format("a node has at most {} links", kMaxLinks));
  node.links.push_back({a, b, link_class, lanes});
  node.links.push_back({b, a, link_class, lanes});
}

void SystemReader::connect(const Json& pair, uint32_t link_class) {
  const auto& ends = pair.items();
  if (ends.size() < 2 || ends.size() > 3) {
    pair.fail("a link is [\"from\", \"to\"] or [\"from\", \"to\", parallel cables]");
  }
  const auto a = named(ends[0]), b = named(ends[1]);
  const int lanes = ends.size() == 3 ? static_cast<int>(ends[2].as_int(1, 1024)) : 1;
  if (a.size() % b.size() != 0) {
    pair.fail(
        fmt::format("{} vertices cannot be spread over {}: the first count must be a multiple of the second",
                    a.size(), b.size()));
  }
  const std::size_t each = a.size() / b.size();
  for (std::size_t i = 0; i < a.size(); ++i) cable(a[i], b[i / each], link_class, lanes, pair.place());
}

void SystemReader::mesh(const Json& pattern, uint32_t link_class) {
  const auto all = named(pattern);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) cable(all[i], all[j], link_class, 1, pattern.place());
  }
}

void SystemReader::links() {
  const Json* links = this->spec().find("links");
  if (links == nullptr) return;
  for (const auto& [kind, spec] : links->members()) {
    spec.only({"bandwidth", "width", "achieved", "latency", "duplex", "between", "mesh", "source", "note"});
    LinkClass c;
    c.kind = kind;
    c.bandwidth = {positive_bandwidth(spec.at("bandwidth")).bytes_per_second * width_share(spec)};
    c.achieved = spec.real("achieved", 1, 1e-6, 1);
    c.latency = spec.at("latency").as_time();
    const std::string duplex = spec.text("duplex", "full");
    if (duplex != "full" && duplex != "half") {
      spec.at("duplex").fail(fmt::format("\"{}\" is not a duplex. Valid: full, half", printable(duplex)));
    }
    c.half_duplex = duplex == "half";
    const auto id = static_cast<uint32_t>(node().classes.size());
    node().classes.push_back(c);
    const Json* between = spec.find("between");
    const Json* meshes = spec.find("mesh");
    if (between == nullptr && meshes == nullptr)
      spec.fail("\"between\" or \"mesh\" must say what the link joins");
    if (between != nullptr) {
      for (const Json& pair : between->items()) connect(pair, id);
    }
    if (meshes != nullptr) {
      for (const Json& pattern : meshes->items()) mesh(pattern, id);
    }
  }
}

void SystemReader::peer_access() {
  const Json* spec = this->spec().find("peer_access");
  if (spec == nullptr) return;
  spec->only({"reach", "through_host_cap", "staged_cap", "staged_cap_sockets", "staged_latency",
              "staged_spread", "staged_pairs", "direct_pairs", "through_gpus", "source", "note"});
  PeerAccess& peer = kind().peer;
  if (const Json* reach = spec->find("reach")) peer.reach = parse_reach(*reach);
  peer.through_host_cap = optional_cap(*spec, "through_host_cap");
  peer.staged_cap = optional_cap(*spec, "staged_cap");
  peer.staged_cap_sockets = optional_cap(*spec, "staged_cap_sockets");
  if (const Json* latency = spec->find("staged_latency")) peer.staged_latency = latency->as_time();
  peer.staged_spread = spec->real("staged_spread", 0, 0, 3);
  pair_caps(*spec, "staged_pairs", peer.staged_pairs);
  pair_caps(*spec, "direct_pairs", peer.direct_pairs);
  node().through_gpus = spec->boolean("through_gpus", false);
}

/// {"gpu0>gpu2": "13GB/s"}: one way.
void SystemReader::pair_caps(const Json& spec, const char* key,
                             std::map<std::pair<uint32_t, uint32_t>, double>& caps) const {
  const Json* pairs = spec.find(key);
  if (pairs == nullptr) return;
  for (const auto& [name, rate] : pairs->members()) {
    const auto arrow = name.find('>');
    if (arrow == std::string::npos)
      rate.fail(fmt::format("\"{}\" is no pair of devices, as \"gpu0>gpu2\" is", printable(name)));
    const auto from = named(Json::make_text(name.substr(0, arrow), rate.place()));
    const auto to = named(Json::make_text(name.substr(arrow + 1), rate.place()));
    for (const uint32_t a : from) {
      for (const uint32_t b : to) caps[{a, b}] = positive_bandwidth(rate).bytes_per_second;
    }
  }
}

/// "local_storage" and what else begins with "local_", or "shared_".
void SystemReader::storage(const Json& host, const std::string& which, Bandwidth& bandwidth,
                           StorageLimits& limits) {
  if (const Json* rate = host.find(which + "_storage")) bandwidth = rate->as_bandwidth();
  limits.operations = host.real(which + "_operations", 0, 0, 1e12);
  limits.metadata = host.real(which + "_metadata", 0, 0, 1e12);
  if (const Json* latency = host.find(which + "_latency")) limits.latency = latency->as_time();
}

void SystemReader::host() {
  const Json* spec = this->spec().find("host");
  if (spec == nullptr) return;
  spec->only({"cores", "core_speed", "local_storage", "local_operations", "local_metadata", "local_latency",
              "shared_storage", "shared_operations", "shared_metadata", "shared_latency", "memory",
              "page_cache", "jitter", "source", "note"});
  HostInfo& host = kind().host;
  host.cores = static_cast<int>(spec->integer("cores", 0, 1, 1'000'000));
  host.core_speed = spec->real("core_speed", 1, 1e-3, 1e3);
  host.jitter = spec->real("jitter", host.jitter, 0, 10);
  storage(*spec, "local", host.local_storage, host.local_limits);
  storage(*spec, "shared", host.shared_storage, host.shared_limits);
  if (const Json* memory = spec->find("memory")) {
    host.memory = memory->as_bytes();
    if (host.memory.n <= 0) memory->fail("must be above 0");
  }
  if (const Json* cache = spec->find("page_cache")) host.page_cache = cache->as_bytes();
}

void SystemReader::plug() {
  const Json* spec = document_.find("network");
  if (spec == nullptr) return;
  std::vector<uint32_t>& ports = kind().ports;
  const auto& vertices = node().vertices;
  if (const Json* attach = spec->find("attach")) {
    ports = named(*attach);
    for (const uint32_t port : ports) {
      const VertexKind kind = vertices[port].kind;
      if (kind == VertexKind::nic || kind == VertexKind::gpu || kind == VertexKind::tpu ||
          kind == VertexKind::cpu)
        continue;
      attach->fail(
          fmt::format("\"{}\" cannot plug into the network: NICs and devices can", vertices[port].name));
    }
  } else {
    for (uint32_t v = 0; v < vertices.size(); ++v) {
      if (vertices[v].kind == VertexKind::nic) ports.push_back(v);
    }
  }
  if (ports.empty()) spec->fail("the node has no NIC; add one, or name what plugs in with \"attach\"");
}

void SystemReader::network() {
  const Json* spec = document_.find("network");
  const Place nodes_place =
      document_.find("nodes") != nullptr ? document_.at("nodes").place() : document_.place();
  if (spec == nullptr) {
    if (out_->nodes > 1) {
      throw InputError(nodes_place,
                       fmt::format("{} nodes need a \"network\", which this system lacks", out_->nodes));
    }
    return;
  }
  out_->block = spec->at("block").as_text();
  const NetworkBlock& block = blocks_registry().at(out_->block, spec->at("block").place());
  std::vector<std::string> valid = {"block",  "bandwidth", "achieved", "latency",
                                    "attach", "transport", "source",   "note"};
  valid.insert(valid.end(), block.keys.begin(), block.keys.end());
  spec->only(valid);
  out_->shape = {out_->nodes,
                 static_cast<uint32_t>(kind().ports.size()),
                 {positive_bandwidth(spec->at("bandwidth")).bytes_per_second * bonded_},
                 spec->real("achieved", 1, 1e-6, 1),
                 spec->at("latency").as_time(),
                 bonded_};
  const Json& transport = spec->at("transport");
  transport.only({"name", "latency", "flow_cap", "gpudirect", "loss", "buffer", "min_rto", "segment",
                  "initial_window", "ecn", "source", "note"});
  out_->transport.name = transport.text("name", "tcp");
  out_->transport.latency = transport.at("latency").as_time();
  out_->transport.flow_cap = optional_cap(transport, "flow_cap");
  const Json& gpudirect = transport.at("gpudirect");
  out_->transport.gpudirect = parse_reach(gpudirect);
  out_->transport.loss = read_packet_loss(transport);
  out_->network = block.make(out_->shape, *spec);
}

void SystemReader::serve() {
  const NodeTemplate& node = this->node();
  auto &host_of = kind().host_of, &stage_of = kind().stage_of;
  const auto n = static_cast<uint32_t>(node.vertices.size());
  host_of.assign(n, UINT32_MAX);
  for (uint32_t v = 0; v < n; ++v) {
    uint32_t best = UINT32_MAX;
    for (uint32_t c = 0; c < n; ++c) {
      if (node.vertices[c].kind != VertexKind::cpu) continue;
      const bool same = node.vertices[c].numa == node.vertices[v].numa;
      if (best == UINT32_MAX || (same && node.vertices[best].numa != node.vertices[v].numa)) best = c;
    }
    host_of[v] = node.vertices[v].kind == VertexKind::cpu ? v : best;
  }
  stage_of = host_of;
  for (const NodeLink& l : node.links) {
    if (node.vertices[l.to].kind != VertexKind::memory) continue;
    for (uint32_t v = 0; v < n; ++v) {
      if (host_of[v] == l.from) stage_of[v] = l.to;
    }
  }
}

void SystemReader::check(const NodeTemplate& node, int64_t at_node) const {
  const auto first = static_cast<uint32_t>(kind().host_of.empty() ? 0 : kind().host_of[0]);
  const Json* links = spec().find("links");
  const Place place = links != nullptr ? links->place() : spec().place();
  for (uint32_t v = 0; v < node.vertices.size(); ++v) {
    // Nothing ends at a switch, so it need only be cabled.
    const VertexKind kind = node.vertices[v].kind;
    const bool inner = kind == VertexKind::nvswitch || kind == VertexKind::pcie_switch;
    if (node.distance(first, v).hops >= 0 || (inner && node.connected(first, v))) continue;
    const std::string& from = node.vertices[first].name;
    if (!out_->faults.empty()) {
      if (inner || kind == VertexKind::nic || kind == VertexKind::storage) continue;
      throw InputError(
          document_.at("faults").place(),
          fmt::format("the faults leave no way from \"{}\" to \"{}\"{}", from, node.vertices[v].name,
                      at_node < 0 ? "" : fmt::format(" of node {}", at_node)));
    }
    throw InputError(
        place, node.connected(first, v)
                   ? fmt::format("\"{}\" is reached from \"{}\" only through vertices that do not forward; "
                                 "CPUs and switches do, and GPUs with peer_access.through_gpus",
                                 node.vertices[v].name, from)
                   : fmt::format("no links lead from \"{}\" to \"{}\"", from, node.vertices[v].name));
  }
}

std::unique_ptr<System::Impl> SystemReader::read(const Json& document) {
  SystemReader reader(document);
  reader.out_ = std::make_unique<System::Impl>();
  System::Impl& out = *reader.out_;
  document.only({"name", "summary", "sources", "unverified", "note", "fitted", "nodes", "node_kinds",
                 "devices", "place", "vertices", "links", "faults", "peer_access", "host", "network",
                 "communication"});
  out.name = document.at("name").as_text();
  out.summary = document.at("summary").as_text();
  out.nodes = document.integer("nodes", 1, 1, 1'000'000'000);
  if (const Json* unverified = document.find("unverified")) {
    for (const Json& path : unverified->items()) out.unverified.push_back(path.as_text());
  }
  reader.add_kinds();
  reader.each_kind([&] {
    reader.vertices();
    reader.place();
    reader.links();
    reader.host();
    reader.plug();
  });
  reader.compare();
  reader.strike_all();
  reader.each_kind([&] {
    reader.peer_access();
    reader.node().finish();
    reader.serve();
    reader.check(reader.node(), -1);
  });
  reader.bond();
  reader.network();
  reader.number();
  reader.each_kind([&] { reader.kind().port_of = reader.ports(reader.node(), -1); });
  reader.strike_single();
  const Json* communication = document.find("communication");
  if (communication != nullptr && !communication->is_object()) communication->fail("must be an object");
  out.communication = communication != nullptr ? *communication : Json::make_object(document.place());
  return std::move(reader.out_);
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
// How a system is shown: Graphviz, JSON, and the lists.
#include <fmt/format.h>

#include "base/json_writer.h"

#include "base/data.h"
#include "topologies/system_impl.h"

namespace tandem::topologies {

namespace {

const char* shape_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
    case VertexKind::tpu:
      return "shape=box, style=filled, fillcolor=\"#cfe8cf\"";
    case VertexKind::cpu:
      return "shape=box, style=\"filled,rounded\", fillcolor=\"#cfdcf0\"";
    case VertexKind::nic:
      return "shape=component, style=filled, fillcolor=\"#f5e3c0\"";
    case VertexKind::memory:
    case VertexKind::storage:
      return "shape=cylinder, style=filled, fillcolor=\"#e8e8e8\"";
    case VertexKind::pcie_switch:
    case VertexKind::nvswitch:
      return "shape=hexagon, style=filled, fillcolor=\"#eeeeee\"";
  }
  return "";
}

/// For a quoted dot string.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

const char* color_of(const std::string& kind) {
  if (kind.starts_with("nvlink") || kind.starts_with("xgmi") || kind.starts_with("ici")) return "#2e8b57";
  if (kind.starts_with("pcie")) return "#555555";
  if (kind.starts_with("socket")) return "#c0392b";
  if (kind.starts_with("network") || kind.starts_with("nic")) return "#d08000";
  return "#888888";
}

/// Sockets and cables of a node of the kind; `prefix` stands before its vertices' names.
std::string node_dot(const System& system, const NodeKind& kind, const std::string& prefix) {
  const NodeTemplate& node = kind.node;
  std::string out;
  int32_t sockets = 0;
  for (const Vertex& v : node.vertices) sockets = std::max(sockets, v.numa + 1);
  for (int32_t socket = 0; socket < sockets; ++socket) {
    out += fmt::format(
        "  subgraph \"cluster_{1}socket{0}\" {{\n    label=\"{1}socket {0}\"; color=\"#bbbbbb\";\n", socket,
        prefix);
    for (const Vertex& v : node.vertices) {
      if (v.numa != socket) continue;
      const std::string model =
          v.device >= 0 ? "\\n" + escaped(system.devices()[static_cast<std::size_t>(v.device)].name) : "";
      out +=
          fmt::format("    \"{3}{0}\" [label=\"{0}{1}\", {2}];\n", v.name, model, shape_of(v.kind), prefix);
    }
    out += "  }\n";
  }
  // Links between sockets do not rank their ends: the sockets then stand side by side.
  for (std::size_t i = 0; i < node.links.size(); i += 2) {
    const NodeLink& l = node.links[i];
    const LinkInfo info = system.link(static_cast<LinkId>(kind.first_link + i));
    const Vertex &from = node.vertices[l.from], &to = node.vertices[l.to];
    out +=
        fmt::format("  \"{7}{0}\" -- \"{7}{1}\" [label=\"{2} {3}\", color=\"{4}\", penwidth={5}{6}];\n",
                    from.name, to.name, escaped(info.kind), to_text(info.bandwidth), color_of(info.kind),
                    std::min(1 + l.lanes / 2, 4), from.numa == to.numa ? "" : ", constraint=false", prefix);
  }
  return out;
}

}  // namespace

std::string System::dot() const {
  std::string out = fmt::format(
      "graph \"{}\" {{\n  label=\"{}\\n{} node{}, {} devices\";\n  fontname=\"sans\";\n"
      "  node [fontname=\"sans\", fontsize=11];\n  edge [fontname=\"sans\", fontsize=9];\n",
      escaped(name()), escaped(summary()), nodes(), nodes() == 1 ? "" : "s", accelerator_count());
  const auto prefix = [&](const NodeKind& kind) {
    return impl_->kinds.size() > 1 ? fmt::format("node{}/", kind.first) : std::string();
  };
  for (const NodeKind& kind : impl_->kinds) out += node_dot(*this, kind, prefix(kind));
  if (impl_->network) {
    out += fmt::format("  \"network\" [label=\"network: {}\\n{} x {}\", shape=ellipse, style=dashed];\n",
                       impl_->block, escaped(impl_->transport.name), to_text(impl_->shape.bandwidth));
    for (const NodeKind& kind : impl_->kinds) {
      for (const uint32_t port : kind.ports) {
        out += fmt::format("  \"{}{}\" -- \"network\" [color=\"{}\"];\n", prefix(kind),
                           kind.node.vertices[port].name, color_of("network"));
      }
    }
  }
  return out + "}\n";
}

namespace {

/// "devices", "vertices", "links" and "host" of a node of the kind.
JsonWriter listing(const System& system, const NodeKind& kind) {
  const NodeTemplate& node = kind.node;
  JsonWriter out;
  out["devices"] = JsonWriter::array();
  out["vertices"] = JsonWriter::array();
  for (const Vertex& v : node.vertices) {
    if (v.device < 0) {
      out["vertices"].push_back({{"id", v.name}, {"kind", topologies::name(v.kind)}, {"numa", v.numa}});
      continue;
    }
    const Device& d = system.devices()[static_cast<std::size_t>(v.device)];
    out["devices"].push_back({{"id", v.name},
                              {"kind", topologies::name(v.kind)},
                              {"model", d.name},
                              {"numa", v.numa},
                              {"memory_bytes", d.memory.n},
                              {"memory_bandwidth_bytes_per_second", d.memory_bandwidth.bytes_per_second}});
    if (d.power_share < 1) out["devices"].back()["power_limit_watts"] = d.power_share * d.watts;
  }
  out["links"] = JsonWriter::array();
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    const NodeLink& l = node.links[i];
    const LinkInfo info = system.link(static_cast<LinkId>(kind.first_link + i));
    out["links"].push_back({{"from", node.vertices[l.from].name},
                            {"to", node.vertices[l.to].name},
                            {"kind", info.kind},
                            {"lanes", l.lanes},
                            {"duplex", info.shared_with == kind.first_link + i ? "full" : "half"},
                            {"bandwidth_bytes_per_second", info.bandwidth.bytes_per_second},
                            {"usable_bytes_per_second", info.usable()},
                            {"latency_seconds", info.latency.seconds()}});
  }
  out["host"] = {{"cores", kind.host.cores},
                 {"core_speed", kind.host.core_speed},
                 {"jitter", kind.host.jitter},
                 {"local_storage_bytes_per_second", kind.host.local_storage.bytes_per_second},
                 {"shared_storage_bytes_per_second", kind.host.shared_storage.bytes_per_second}};
  return out;
}

}  // namespace

std::string System::to_json_text() const {
  const NodeKind& first = impl_->kinds.front();
  JsonWriter node = listing(*this, first);
  JsonWriter out;
  out["name"] = name();
  out["summary"] = summary();
  out["nodes"] = nodes();
  out["accelerators"] = accelerator_count();
  for (const char* key : {"devices", "vertices", "links"}) out[key] = std::move(node[key]);
  if (impl_->network) {
    JsonWriter ports = JsonWriter::array();
    for (const uint32_t port : first.ports) ports.push_back(first.node.vertices[port].name);
    out["network"] = {
        {"block", impl_->block},
        {"transport", impl_->transport.name},
        {"ports", ports},
        {"bandwidth_bytes_per_second", impl_->shape.bandwidth.bytes_per_second},
        {"usable_bytes_per_second", impl_->shape.bandwidth.bytes_per_second * impl_->shape.achieved},
        {"latency_seconds", impl_->shape.latency.seconds()},
        {"message_latency_seconds", impl_->transport.latency.seconds()},
        {"flow_cap_bytes_per_second", impl_->transport.flow_cap},
        {"gpudirect", topologies::name(impl_->transport.gpudirect)}};
    const PacketLoss& loss = impl_->transport.loss;
    out["network"]["loss"] = topologies::name(loss.kind);
    if (loss.kind == PacketLoss::Kind::tcp) {
      out["network"]["port_buffer_bytes"] = loss.buffer.n;
      out["network"]["min_rto_seconds"] = loss.min_rto.seconds();
      out["network"]["segment_bytes"] = loss.segment.n;
      out["network"]["initial_window_segments"] = loss.initial_window;
      out["network"]["ecn_threshold_bytes"] = loss.mark.n;
    }
  }
  out["host"] = std::move(node["host"]);
  for (const NodeKind& kind : impl_->kinds) {
    if (impl_->kinds.size() == 1) break;
    JsonWriter ports = JsonWriter::array();
    for (const uint32_t port : kind.ports) ports.push_back(kind.node.vertices[port].name);
    JsonWriter each = listing(*this, kind);
    each["name"] = kind.name;
    each["first_node"] = kind.first;
    each["nodes"] = kind.nodes;
    each["ports"] = ports;
    out["node_kinds"].push_back(std::move(each));
  }
  // What came from the command line may not be UTF-8.
  return out.dump(2) + "\n";
}

namespace {

std::vector<SystemEntry> list_folder(const std::string& folder) {
  std::vector<SystemEntry> out;
  for (const std::string& each : list_data(folder)) {
    const Json document = Json::load(fmt::format("{}/{}/{}.json", data_root(), folder, each));
    out.push_back({each, document.text("summary", "")});
  }
  return out;
}

}  // namespace

std::vector<SystemEntry> list_systems() { return list_folder("topologies/systems"); }
std::vector<SystemEntry> list_devices() { return list_folder("topologies/devices"); }

}  // namespace tandem::topologies

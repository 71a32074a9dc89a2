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

}  // namespace

std::string System::dot() const {
  const NodeTemplate& node = impl_->node;
  std::string out = fmt::format(
      "graph \"{}\" {{\n  label=\"{}\\n{} node{}, {} devices\";\n  fontname=\"sans\";\n"
      "  node [fontname=\"sans\", fontsize=11];\n  edge [fontname=\"sans\", fontsize=9];\n",
      escaped(name()), escaped(summary()), nodes(), nodes() == 1 ? "" : "s", accelerator_count());
  int32_t sockets = 0;
  for (const Vertex& v : node.vertices) sockets = std::max(sockets, v.numa + 1);
  for (int32_t socket = 0; socket < sockets; ++socket) {
    out += fmt::format("  subgraph cluster_socket{0} {{\n    label=\"socket {0}\"; color=\"#bbbbbb\";\n",
                       socket);
    for (const Vertex& v : node.vertices) {
      if (v.numa != socket) continue;
      const std::string model =
          v.device >= 0 ? "\\n" + escaped(devices()[static_cast<std::size_t>(v.device)].name) : "";
      out += fmt::format("    \"{0}\" [label=\"{0}{1}\", {2}];\n", v.name, model, shape_of(v.kind));
    }
    out += "  }\n";
  }
  // Links between sockets do not rank their ends: the sockets then stand side by side.
  for (std::size_t i = 0; i < node.links.size(); i += 2) {
    const NodeLink& l = node.links[i];
    const LinkInfo info = impl_->node_link(i);
    const Vertex &from = node.vertices[l.from], &to = node.vertices[l.to];
    out += fmt::format("  \"{}\" -- \"{}\" [label=\"{} {}\", color=\"{}\", penwidth={}{}];\n", from.name,
                       to.name, escaped(info.kind), to_text(info.bandwidth), color_of(info.kind),
                       std::min(1 + l.lanes / 2, 4), from.numa == to.numa ? "" : ", constraint=false");
  }
  if (impl_->network) {
    out += fmt::format("  \"network\" [label=\"network: {}\\n{} x {}\", shape=ellipse, style=dashed];\n",
                       impl_->block, escaped(impl_->transport.name), to_text(impl_->shape.bandwidth));
    for (const uint32_t port : impl_->ports) {
      out += fmt::format("  \"{}\" -- \"network\" [color=\"{}\"];\n", node.vertices[port].name,
                         color_of("network"));
    }
  }
  return out + "}\n";
}

std::string System::to_json_text() const {
  const NodeTemplate& node = impl_->node;
  JsonWriter out;
  out["name"] = name();
  out["summary"] = summary();
  out["nodes"] = nodes();
  out["accelerators"] = accelerator_count();
  out["devices"] = JsonWriter::array();
  out["vertices"] = JsonWriter::array();
  for (const Vertex& v : node.vertices) {
    if (v.device < 0) {
      out["vertices"].push_back({{"id", v.name}, {"kind", topologies::name(v.kind)}, {"numa", v.numa}});
      continue;
    }
    const Device& d = devices()[static_cast<std::size_t>(v.device)];
    out["devices"].push_back({{"id", v.name},
                              {"kind", topologies::name(v.kind)},
                              {"model", d.name},
                              {"numa", v.numa},
                              {"memory_bytes", d.memory.n},
                              {"memory_bandwidth_bytes_per_second", d.memory_bandwidth.bytes_per_second}});
  }
  out["links"] = JsonWriter::array();
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    const NodeLink& l = node.links[i];
    const LinkInfo info = impl_->node_link(i);
    out["links"].push_back({{"from", node.vertices[l.from].name},
                            {"to", node.vertices[l.to].name},
                            {"kind", info.kind},
                            {"lanes", l.lanes},
                            {"duplex", info.shared_with == i ? "full" : "half"},
                            {"bandwidth_bytes_per_second", info.bandwidth.bytes_per_second},
                            {"usable_bytes_per_second", info.usable()},
                            {"latency_seconds", info.latency.seconds()}});
  }
  if (impl_->network) {
    JsonWriter ports = JsonWriter::array();
    for (const uint32_t port : impl_->ports) ports.push_back(node.vertices[port].name);
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
  }
  out["host"] = {{"cores", host().cores},
                 {"core_speed", host().core_speed},
                 {"jitter", host().jitter},
                 {"local_storage_bytes_per_second", host().local_storage.bytes_per_second},
                 {"shared_storage_bytes_per_second", host().shared_storage.bytes_per_second}};
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

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include "base/json_writer.h"

#include "answers/labels.h"
#include "answers/question.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/show/show.h"
#include "pictures/draw.h"
#include "pictures/system_drawing.h"
#include "topologies/devices/device_power.h"
#include "topologies/system.h"

namespace tandem::app {

namespace {

constexpr std::size_t kMostLinksShown = 200;
constexpr int64_t kMostRoutesShown = 16;

/// Usable bytes/s of one flow on a route: the narrowest link and the transport's own cap.
double route_rate(const System& system, const Route& route) {
  double rate = route.cap > 0 ? route.cap : 1e300;
  for (const LinkId id : route.links) rate = std::min(rate, system.link(id).usable());
  return rate;
}

/// Between accelerators, laid out like `nvidia-smi topo -m`: GB/s of a single flow, * = staged through the
/// host.
std::string routes(const System& system, int width) {
  const int64_t n = std::min(system.accelerator_count(), kMostRoutesShown);
  if (n < 2) return "";
  std::vector<Column> columns = {{"GB/s"}};
  for (int64_t j = 0; j < n; ++j) columns.push_back({system.vertex_name(system.accelerator(j)), true});
  Table table(std::move(columns));
  for (int64_t i = 0; i < n; ++i) {
    std::vector<std::string> row = {system.vertex_name(system.accelerator(i))};
    for (int64_t j = 0; j < n; ++j) {
      if (i == j) {
        row.emplace_back("-");
        continue;
      }
      const Route route = system.route(system.accelerator(i), system.accelerator(j));
      row.push_back(fmt::format("{:.3g}{}", route_rate(system, route) * 1e-9, route.staged > 0 ? "*" : ""));
    }
    table.add(std::move(row));
  }
  return fmt::format("\nOne flow between accelerators (* = staged through host memory)\n{}",
                     table.text(true, width));
}

std::string links(const System& system, int width) {
  Table table({{"link"}, {"kind"}, {"bandwidth", true}, {"reached", true}, {"latency", true}, {"duplex"}});
  const std::size_t count = std::min(system.link_count(), kMostLinksShown);
  for (LinkId id = 0; id < count; ++id) {
    const LinkInfo link = system.link(id);
    const std::string cables =
        link.lanes > 1 ? fmt::format(" ({} x {})", link.lanes,
                                     to_text(Bandwidth{link.bandwidth.bytes_per_second / link.lanes}))
                       : "";
    table.add({link.name, link.kind, to_text(link.bandwidth) + cables,
               fmt::format("{:.0f} %", 100 * link.achieved), to_text(link.latency),
               link.shared_with == id ? "full" : "half"});
  }
  std::string out = table.text(true, width);
  if (count < system.link_count()) out += fmt::format("... and {} more\n", system.link_count() - count);
  return out;
}

/// The network links between the first and last node; faults use their names.
std::string network(const System& system, int width) {
  if (system.nodes() < 2) return "";
  Table table({{"way through the network"}, {"GB/s", true}, {"nodes below", true}, {"GB/s of each", true}});
  const auto per_node = static_cast<int64_t>(system.accelerators().size());
  for (const LinkId id :
       system.route(system.accelerator(0), system.accelerator((system.nodes() - 1) * per_node)).links) {
    if (system.link_kind(id) != "network") continue;
    const auto [first, last] = system.nodes_below(id);
    const double rate = system.usable(id) * 1e-9;
    const bool known = last > first;
    table.add({system.link(id).name, fmt::format("{:.3g}", rate), known ? std::to_string(last - first) : "-",
               known ? fmt::format("{:.3g}", rate / static_cast<double>(last - first)) : "-"});
  }
  return fmt::format("\nFrom {} to {}\n{}", system.vertex_name(system.accelerator(0)),
                     system.vertex_name(system.accelerator((system.nodes() - 1) * per_node)),
                     table.text(true, width));
}

/// How ports handle overload, if they drop or pause anything.
std::string ports(const System& system) {
  const PacketLoss& loss = system.packet_loss();
  if (loss.kind == PacketLoss::Kind::none || system.nodes() < 2) return "";
  if (loss.kind == PacketLoss::Kind::pause)
    return "\nports: nothing is lost, a full port pauses its feeders\n";
  return fmt::format("\nports: {} of buffer, then packets of {} are lost; timeouts of at least {}{}\n",
                     to_text(loss.buffer), to_text(loss.segment), to_text(loss.min_rto),
                     loss.mark.n > 0 ? fmt::format("; marks above {} (DCTCP)", to_text(loss.mark)) : "");
}

/// "2 nodes with 4 accelerators each", of several kinds with their name, and what a node has.
std::string nodes_of_kind(const System& system, std::size_t kind, int width) {
  Table devices({{"device"}, {"model"}, {"memory", true}, {"socket", true}});
  for (const Vertex& v : system.vertices(kind)) {
    if (v.device < 0) continue;
    const Device& device = system.devices()[static_cast<std::size_t>(v.device)];
    devices.add({v.name, topologies::limited_name(device), to_text(device.memory), std::to_string(v.numa)});
  }
  const auto kinds = system.kinds();
  const KindOfNode& own = kinds[kind];
  std::string which;
  if (kinds.size() > 1)
    which =
        fmt::format(" {}{}", own.name.empty() ? "" : fmt::format("\"{}\", ", own.name),
                    own.nodes == 1 ? fmt::format("node{}", own.first)
                                   : fmt::format("node{} to node{}", own.first, own.first + own.nodes - 1));
  return fmt::format("{} node{}{} with {} accelerators each\n{}\n", own.nodes, own.nodes == 1 ? "" : "s",
                     which.empty() ? "" : "," + which + ",", system.accelerators(kind).size(),
                     devices.text(true, width));
}

std::string page(const System& system, const std::string& called, int width) {
  std::string nodes;
  for (std::size_t kind = 0; kind < system.kinds().size(); ++kind)
    nodes += nodes_of_kind(system, kind, width);
  return fmt::format("{}: {}\n\n{}{}{}{}{}", called, system.summary(), nodes, links(system, width),
                     routes(system, width), network(system, width), ports(system));
}

}  // namespace

std::string show_system(const ShowRequest& request) {
  const System system = System::load(request.name, asked_sets(request.arguments));
  const std::string out = request.arguments.text("out", "");
  if (request.format == "json") return system.to_json_text();
  if (request.format == "dot") return system.dot();
  if (!picture_kind(out).empty()) {
    write_file(out, draw_system(system).drawn(picture_kind(out)));
    return "";
  }
  return page(system, changed_system(system.name(), asked_sets(request.arguments)), request.columns);
}

std::string show_device(const ShowRequest& request) {
  const Device d = Device::load(request.name);
  constexpr const char* kKinds[] = {"gpu", "cpu", "tpu"};
  const char* kind = kKinds[static_cast<int>(d.kind)];
  if (request.format == "json") {
    JsonWriter out = {{"name", d.name},     {"summary", d.summary},           {"kind", kind},
                      {"vendor", d.vendor}, {"architecture", d.architecture}, {"year", d.year}};
    for (int p = 0; p < kPrecisions; ++p) {
      const auto precision = static_cast<Precision>(p);
      if (d.peak_at(precision).flops_per_second > 0) {
        out["peak_flops_per_second"][std::string(name(precision))] = d.peak_at(precision).flops_per_second;
      }
    }
    out["memory_bytes"] = d.memory.n;
    out["memory_bytes_per_second"] = d.memory_bandwidth.bytes_per_second;
    out["units"] = d.units;
    out["launch_seconds"] = d.launch.seconds();
    out["watts"] = d.watts;
    return out.dump(2);
  }
  if (request.format != "text") throw UsageError("a device is shown as text or json");
  Table table({{"figure"}, {"value"}});
  table.add({"kind", fmt::format("{} {} {} ({})", d.vendor, d.architecture, kind, d.year)});
  for (int p = 0; p < kPrecisions; ++p) {
    const auto precision = static_cast<Precision>(p);
    if (d.peak_at(precision).flops_per_second > 0) {
      table.add({fmt::format("peak {}", name(precision)), to_text(d.peak_at(precision))});
    }
  }
  table.add({"memory", fmt::format("{} at {}", to_text(d.memory), to_text(d.memory_bandwidth))});
  table.add({"units", std::to_string(d.units)});
  table.add({"launch", to_text(d.launch)});
  if (d.watts > 0) table.add({"power", fmt::format("{:.0f} W", d.watts)});
  return fmt::format("{}: {}\n\n{}", d.name, d.summary, table.text(false, request.columns));
}

}  // namespace tandem::app

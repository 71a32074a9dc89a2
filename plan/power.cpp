// SPDX-License-Identifier: Apache-2.0
#include "plan/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/data.h"
#include "sim/device_power.h"
#include "topologies/devices/device_power.h"

namespace tandem::plan {

namespace {

/// Of plan/power/draw.json.
struct Draw {
  Estimate idle;                       ///< share of a device's rated power, without a job
  Estimate processors;                 ///< share of the sockets' rated power
  Estimate adapter_watts, port_watts;  ///< of a port: in the node, in the network
  Estimate boards, boards_idle;        ///< shares of all devices' rated power
  Estimate supply;                     ///< efficiency of power supplies
};

Estimate read_draw(const Json& entry, double most) {
  entry.only({"value", "date", "source", "fitted"});
  entry.at("source").as_text();
  return read_estimate(entry.at("value"), 0, most);
}

Draw load_draw() {
  const Json document = Json::load(data_root() + "/plan/power/draw.json");
  document.only(
      {"summary", "idle", "processors", "adapter_watts", "boards", "boards_idle", "supply", "port_watts"});
  Draw out;
  out.idle = read_draw(document.at("idle"), 1.2);
  out.processors = read_draw(document.at("processors"), 1.2);
  out.adapter_watts = read_draw(document.at("adapter_watts"), 1000);
  out.port_watts = read_draw(document.at("port_watts"), 1000);
  out.boards = read_draw(document.at("boards"), 10);
  out.boards_idle = read_draw(document.at("boards_idle"), 10);
  out.supply = read_draw(document.at("supply"), 1);
  return out;
}

/// Of an accelerator whose rated power is not known: between a T4 and a GB300, geometric mean in the middle.
constexpr double kLeastRated = 70, kRated = 310, kMostRated = 1400;

/// What one node of a kind has.
struct NodeParts {
  double devices = 0;     ///< rated watts of the accelerators
  double processors = 0;  ///< of the others
  double adapters = 0;    ///< ports
};

NodeParts parts_of(const System& system, std::size_t kind) {
  NodeParts out;
  const auto& accelerators = system.accelerators(kind);
  const auto& vertices = system.vertices(kind);
  for (uint32_t local = 0; local < vertices.size(); ++local) {
    const Vertex& vertex = vertices[local];
    if (vertex.kind == VertexKind::nic) out.adapters += 1;
    if (vertex.device < 0) continue;
    const Device& device = system.devices()[static_cast<std::size_t>(vertex.device)];
    const bool trains = std::find(accelerators.begin(), accelerators.end(), local) != accelerators.end();
    const double watts =
        device.watts <= 0 && trains && device.kind != Device::Kind::cpu ? kRated : device.watts;
    (trains ? out.devices : out.processors) += watts;
  }
  return out;
}

/// Watts of a device that spends its time so; at most what it may draw.
Estimate draw_of(const Device& device, const topologies::Activity& activity) {
  if (device.watts <= 0) return {kLeastRated / 4, kRated, kMostRated};
  const topologies::PowerModel model(device);
  const auto [low, high] = model.interval(activity);
  return {low, model.watts(activity), high};
}

/// Of all accelerators of a node of a kind.
Estimate draw_of(const System& system, std::size_t kind, const topologies::Activity& activity) {
  Estimate out;
  for (const uint32_t local : system.accelerators(kind)) {
    const int32_t index = system.vertices(kind)[local].device;
    out += draw_of(system.devices()[static_cast<std::size_t>(index)], activity);
  }
  return out;
}

/// Shares of the devices that the nodes of a system hold.
struct Slots {
  double used = 1, installed = 1;
  Slots(int64_t devices, std::optional<int64_t> in_nodes, int64_t all)
      : used(std::min(1.0, static_cast<double>(devices) / static_cast<double>(all))),
        installed(
            std::clamp(static_cast<double>(in_nodes.value_or(all)) / static_cast<double>(all), used, 1.0)) {}
};

/// Of `nodes` nodes of one kind, whose devices draw `busy` watts in a node if all are used.
Power node_power(const NodeParts& parts, double nodes, const Slots& slots, const Estimate& busy,
                 const Estimate& boards, const Draw& draw) {
  Power out;
  out.devices = busy * (slots.used * nodes);
  out.unused = draw.idle * ((slots.installed - slots.used) * parts.devices * nodes);
  out.processors = draw.processors * (parts.processors * nodes);
  out.adapters = draw.adapter_watts * (parts.adapters * nodes);
  out.boards = boards * (slots.installed * parts.devices * nodes);
  const double delivered =
      independent_sum({out.devices, out.unused, out.processors, out.adapters, out.boards}).value;
  const auto lost = [&](double efficiency) { return delivered * (1 / efficiency - 1); };
  out.supplies = {lost(draw.supply.high), lost(draw.supply.value), lost(draw.supply.low)};
  return out;
}

void add_power(Power& sum, const Power& more) {
  sum.devices += more.devices;
  sum.unused += more.unused;
  sum.processors += more.processors;
  sum.adapters += more.adapters;
  sum.boards += more.boards;
  sum.supplies += more.supplies;
  sum.network += more.network;
}

/// Over the kinds of the first `nodes` nodes; `power_of_kind(kind, nodes of it)`.
template <typename PowerOfKind>
Power over_kinds(const System& system, int64_t nodes, const Draw& draw, PowerOfKind&& power_of_kind) {
  Power out;
  const auto kinds = system.kinds();
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const int64_t of_kind = std::min(nodes - kinds[kind].first, kinds[kind].nodes);
    if (of_kind <= 0) continue;
    const NodeParts parts = parts_of(system, kind);
    Power power = power_of_kind(kind, parts, static_cast<double>(of_kind));
    if (nodes > 1) power.network = draw.port_watts * (parts.adapters * static_cast<double>(of_kind));
    add_power(out, power);
  }
  return out;
}

}  // namespace

Power power_of(const Report& report, const System& system, std::optional<int64_t> installed) {
  TANDEM_CHECK(report.fits);
  const Draw draw = load_draw();
  const auto per_node = static_cast<int64_t>(system.accelerators().size());
  const int64_t nodes = std::min(system.nodes(), (report.setup.devices + per_node - 1) / per_node);
  const Slots slots(report.setup.devices, installed, nodes * per_node);
  const topologies::Activity activity = sim::activity_of(report);
  return over_kinds(system, nodes, draw, [&](std::size_t kind, const NodeParts& parts, double of_kind) {
    return node_power(parts, of_kind, slots, draw_of(system, kind, activity), draw.boards, draw);
  });
}

Power idle_power(const System& system, int64_t nodes, std::optional<int64_t> installed) {
  const Draw draw = load_draw();
  const Slots slots(0, installed, nodes * static_cast<int64_t>(system.accelerators().size()));
  return over_kinds(system, nodes, draw, [&](std::size_t, const NodeParts& parts, double of_kind) {
    return node_power(parts, of_kind, slots, 0, draw.boards_idle, draw);
  });
}

}  // namespace tandem::plan

// SPDX-License-Identifier: Apache-2.0
// SimGrid's platform files (DTD 4.1): a host per device, a link per direction of a cable, every route spelt
// out, because which way traffic takes (peer access, copies through host memory, the nearest NIC) is this
// side's knowledge.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "topologies/export/exporter.h"

namespace tandem::topologies {

namespace {

/// Routes are written per pair of devices: some 50 MB of text.
constexpr uint64_t kMostRoutes = 100'000;
constexpr double kUnlimited = 1e18;  ///< bytes/s

constexpr const char* kRemark =
    " Bandwidths are what large transfers reach, so the correction factors are off. Links of class \"limit\" "
    "are no "
    "cables: they bound one flow alone (FATPIPE) and hold the latency of copies through host memory and of "
    "the "
    "network's messages. SimGrid shares a link among flows in inverse proportion to the latencies of their "
    "routes; "
    "with latencies of 0 it shares evenly, as Tandem does. ";

std::string bandwidth_text(double bytes_per_second) {
  return fmt::format("{:.9g}MBps", bytes_per_second / 1e6);
}
std::string latency_text(Time latency) { return fmt::format("{:.9g}us", latency.seconds() * 1e6); }

class Platform {
 public:
  explicit Platform(const System& system) : system_(system) {}
  std::string run();

 private:
  void head();
  void devices();
  void routes();
  void route(VertexId from, VertexId to);
  const std::string& link_of(LinkId id);
  const std::string& limit_of(double cap, Time latency);
  void add_link(const std::string& id, double bandwidth, Time latency, const char* policy);

  const System& system_;
  pugi::xml_document document_;
  pugi::xml_node zone_, first_route_;
  std::vector<VertexId> hosts_;
  std::map<LinkId, std::string> links_;  ///< ids of those written
  std::map<std::string, int> used_;
  std::map<std::pair<double, int64_t>, std::string> limits_;  ///< by cap and latency
};

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(value.c_str());
}

void Platform::head() {
  document_.append_child(pugi::node_doctype).set_value("platform SYSTEM \"https://simgrid.org/simgrid.dtd\"");
  pugi::xml_node platform = document_.append_child("platform");
  set(platform, "version", "4.1");
  platform.append_child(pugi::node_comment).set_value(kRemark);
  pugi::xml_node config = platform.append_child("config");
  for (const auto& [key, value] : {std::pair("network/model", "CM02"),
                                   {"network/crosstraffic", "0"},
                                   {"network/TCP-gamma", "0"},
                                   {"network/weight-S", "0"},
                                   {"network/latency-factor", "1"},
                                   {"network/bandwidth-factor", "1"}}) {
    pugi::xml_node prop = config.append_child("prop");
    set(prop, "id", key);
    set(prop, "value", value);
  }
  zone_ = platform.append_child("zone");
  set(zone_, "id", system_.name());
  set(zone_, "routing", "Full");
}

void Platform::devices() {
  uint64_t count = 0;
  for (std::size_t kind = 0; kind < system_.kinds().size(); ++kind) {
    const auto& vertices = system_.vertices(kind);
    const auto own =
        std::count_if(vertices.begin(), vertices.end(), [](const Vertex& v) { return v.device >= 0; });
    count += static_cast<uint64_t>(own) * static_cast<uint64_t>(system_.kinds()[kind].nodes);
  }
  if (count * count > kMostRoutes) {
    throw InputError(fmt::format(
        "{}: its {} devices need {} routes in SimGrid's file, more than {}; take fewer nodes with --set "
        "nodes=N",
        system_.name(), count, count * count, kMostRoutes));
  }
  for (int64_t node = 0; node < system_.nodes(); ++node) {
    const auto& vertices = system_.vertices(system_.kind_of(system_.vertex(node, 0)));
    for (uint32_t local = 0; local < vertices.size(); ++local) {
      if (vertices[local].device >= 0) hosts_.push_back(system_.vertex(node, local));
    }
  }
  for (const VertexId id : hosts_) {
    const Device& device = system_.device(id);
    pugi::xml_node host = zone_.append_child("host");
    set(host, "id", system_.vertex_name(id));
    set(host, "speed", fmt::format("{:.9g}Gf", device.peak_at(Precision::fp32).flops_per_second / 1e9));
    for (const auto& [key, value] :
         {std::pair("model", device.name), {"memory_bytes", fmt::format("{}", device.memory.n)}}) {
      pugi::xml_node prop = host.append_child("prop");
      set(prop, "id", key);
      set(prop, "value", value);
    }
  }
}

/// Links stand before the first route.
void Platform::add_link(const std::string& id, double bandwidth, Time latency, const char* policy) {
  pugi::xml_node link =
      first_route_.empty() ? zone_.append_child("link") : zone_.insert_child_before("link", first_route_);
  set(link, "id", id);
  set(link, "bandwidth", bandwidth_text(bandwidth));
  set(link, "latency", latency_text(latency));
  set(link, "sharing_policy", policy);
}

/// One link for both directions where they share their capacity.
const std::string& Platform::link_of(LinkId id) {
  const LinkId pool = system_.pool(id);
  const auto [at, fresh] = links_.try_emplace(pool);
  if (!fresh) return at->second;
  const LinkInfo info = system_.link(pool);
  std::string name = info.name;
  if (const auto arrow = name.find('>'); arrow != std::string::npos)
    name.replace(arrow, 1, system_.link(id).shared_with == id ? "-to-" : "-and-");
  const int before = used_[name]++;  // cables of several kinds between two vertices
  if (before > 0) name += fmt::format("-{}", before);
  at->second = name;
  add_link(name, info.usable(), info.latency, "SHARED");
  return at->second;
}

const std::string& Platform::limit_of(double cap, Time latency) {
  const auto [at, fresh] = limits_.try_emplace({cap, latency.ps});
  if (fresh) {
    at->second = fmt::format("limit{}", limits_.size());
    add_link(at->second, cap > 0 ? cap : kUnlimited, latency, "FATPIPE");
  }
  return at->second;
}

void Platform::route(VertexId from, VertexId to) {
  const Route way = system_.route(from, to);
  std::vector<std::string> ids;
  Time rest = way.latency;
  for (const LinkId id : way.links) {
    rest = rest - system_.link(id).latency;
    ids.push_back(link_of(id));
  }
  if (way.cap > 0 || rest.ps > 0) ids.push_back(limit_of(way.cap, rest));
  pugi::xml_node route = zone_.append_child("route");
  if (first_route_.empty()) first_route_ = route;
  set(route, "src", system_.vertex_name(from));
  set(route, "dst", system_.vertex_name(to));
  set(route, "symmetrical", "NO");
  for (const std::string& id : ids) set(route.append_child("link_ctn"), "id", id);
}

void Platform::routes() {
  for (const VertexId from : hosts_) {
    for (const VertexId to : hosts_) {
      if (from != to) route(from, to);
    }
  }
}

std::string Platform::run() {
  head();
  devices();
  routes();
  std::ostringstream out;
  document_.save(out, "  ");
  return out.str();
}

}  // namespace

void register_simgrid(Registry<SystemExporter>& registry) {
  registry.add({"simgrid", "SimGrid platform (XML, DTD 4.1): hosts, links, routes",
                [](const System& system, std::vector<std::string>&) { return Platform(system).run(); }});
}

}  // namespace tandem::topologies

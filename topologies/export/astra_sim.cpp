// SPDX-License-Identifier: Apache-2.0
// ASTRA-sim's files: the network of its analytical backend (rings, fully connected groups and switches, one
// dimension inside the other, innermost first) and its system file. Formats: NetworkParser.cc and
// NetworkFunction.cc of astra-network-analytical (a GB is 2^30 there), inputs/system of astra-sim.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include "base/json_writer.h"

#include "base/error.h"
#include "topologies/export/exporter.h"

namespace tandem::topologies {

namespace {

/// Most devices whose transfers are routed: seconds.
constexpr int64_t kMostDevices = 65'536;

struct Dimension {
  const char* block;  ///< "Ring", "FullyConnected", "Switch"
  int64_t count;
  double bandwidth;  ///< bytes/s: of a cable, or of a device at its switch
  double latency;    ///< seconds, of one hop
};

class Shape {
 public:
  Shape(const System& system, std::vector<std::string>& notes) : system_(system), notes_(notes) {}
  std::vector<Dimension> dimensions();

 private:
  using Partner = std::function<int64_t(int64_t)>;
  Dimension measured(const char* block, int64_t count, int hops, const Partner& partner) const;
  Dimension inside_a_node();
  void between_nodes(std::vector<Dimension>& out);
  Route route(int64_t from, int64_t to) const {
    return system_.route(system_.accelerator(from), system_.accelerator(to));
  }
  double direct(int64_t from, int64_t to) const;
  bool is_switch() const;
  bool mesh_connected() const;
  int64_t per_node() const { return static_cast<int64_t>(system_.accelerators().size()); }

  const System& system_;
  std::vector<std::string>& notes_;
};

/// What the slowest gets when every device sends to its partner at once: of the narrowest link, an even
/// share.
Dimension Shape::measured(const char* block, int64_t count, int hops, const Partner& partner) const {
  std::map<LinkId, int> flows;
  double rate = 1e18;
  for (int64_t i = 0; i < system_.accelerator_count(); ++i) {
    const Route way = route(i, partner(i));
    for (const LinkId id : way.links) ++flows[system_.pool(id)];
    if (way.cap > 0) rate = std::min(rate, way.cap);
  }
  for (const auto& [id, n] : flows) rate = std::min(rate, system_.usable(id) / n);
  return {block, count, rate, route(0, partner(0)).latency.seconds() / hops};
}

/// Usable bytes/s of one cable from device to device, 0 where there is none.
double Shape::direct(int64_t from, int64_t to) const {
  const Route way = route(from, to);
  return way.links.size() == 1 ? system_.usable(way.links[0]) : 0;
}

/// Whether all routes are one link up, which depends on the sender alone, and one down.
bool Shape::is_switch() const {
  for (int64_t i = 0; i < per_node(); ++i) {
    for (int64_t j = 0; j < per_node(); ++j) {
      if (i == j) continue;
      const Route way = route(i, j);
      const LinkId up = route(i, i == 0 ? 1 : 0).links[0], down = route(j == 0 ? 1 : 0, j).links.back();
      if (way.links.size() != 2 || way.staged > 0 || way.links[0] != up || way.links[1] != down) return false;
    }
  }
  return true;
}

/// Whether cables from device to device join them all.
bool Shape::mesh_connected() const {
  std::vector<char> seen(static_cast<std::size_t>(per_node()), 0);
  std::vector<int64_t> open = {0};
  seen[0] = 1;
  for (std::size_t i = 0; i < open.size(); ++i) {
    for (int64_t j = 0; j < per_node(); ++j) {
      if (seen[static_cast<std::size_t>(j)] != 0 || direct(open[i], j) <= 0) continue;
      seen[static_cast<std::size_t>(j)] = 1;
      open.push_back(j);
    }
  }
  return static_cast<int64_t>(open.size()) == per_node();
}

Dimension Shape::inside_a_node() {
  const int64_t n = per_node();
  TANDEM_CHECK(n > 0);
  const auto next = [n](int64_t i) { return i / n * n + (i % n + 1) % n; };
  if (is_switch()) return measured("Switch", n, 2, next);
  int64_t cables = 0, in_order = 0;
  bool uniform = true;
  double least = 1e18;
  for (int64_t i = 0; i < n; ++i) {
    double own = 0;
    for (int64_t j = 0; j < n; ++j) {
      const double rate = i == j ? 0 : direct(i, j);
      if (rate <= 0) continue;
      ++cables;
      in_order += next(i) == j || next(j) == i ? 1 : 0;
      uniform = uniform && rate == direct(0, 1);
      own += rate;
    }
    least = std::min(least, own);
  }
  if (uniform && cables == n * (n - 1)) return measured("FullyConnected", n, 1, next);
  if (uniform && cables == 2 * n && in_order == cables) return measured("Ring", n, 1, next);
  if (mesh_connected()) {
    notes_.push_back(
        "the devices of a node are joined by a mesh that ASTRA-sim has no word for: written as a Switch at "
        "which each "
        "has the bandwidth of all its cables");
    Dimension out = measured("Switch", n, 2, next);
    out.bandwidth = least;
    return out;
  }
  notes_.push_back(
      "the devices of a node are joined by a tree that ASTRA-sim has no word for: written as a Switch at "
      "which each "
      "has the rate that the slowest gets when all send to the next at once");
  return measured("Switch", n, 2, next);
}

void Shape::between_nodes(std::vector<Dimension>& out) {
  const int64_t n = per_node(), nodes = system_.nodes();
  const auto sizes = system_.torus();
  if (sizes.empty()) {
    // Half way through the cluster: across its narrowest cut.
    const auto across = [n, nodes](int64_t i) { return (i / n + nodes / 2) % nodes * n + i % n; };
    out.push_back(measured("Switch", nodes, 2, across));
    return;
  }
  int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis]) {
    const int64_t size = sizes[axis];
    const auto ahead = [n, size, stride](int64_t i) {
      const int64_t node = i / n, at = node / stride % size;
      return (node + ((at + 1) % size - at) * stride) * n + i % n;
    };
    if (size > 1) out.push_back(measured("Ring", size, 1, ahead));
  }
}

std::vector<Dimension> Shape::dimensions() {
  const int64_t all = system_.accelerator_count();
  if (all < 2) throw InputError(fmt::format("{}: ASTRA-sim needs two devices or more", system_.name()));
  if (all > kMostDevices) {
    throw InputError(fmt::format("{}: {} devices are more than {}; take fewer nodes with --set nodes=N",
                                 system_.name(), all, kMostDevices));
  }
  if (!system_.uniform())
    throw InputError(fmt::format("{}: ASTRA-sim's file has no place for faults of single nodes and links",
                                 system_.name()));
  if (system_.kinds().size() > 1)
    throw InputError(
        fmt::format("{}: ASTRA-sim's files have no place for nodes that differ", system_.name()));
  std::vector<Dimension> out;
  if (per_node() > 1) out.push_back(inside_a_node());
  if (system_.nodes() > 1) between_nodes(out);
  return out;
}

std::string network_file(const System& system, std::vector<std::string>& notes) {
  std::vector<std::string> topology;
  std::vector<int64_t> count;
  std::vector<std::string> bandwidth, latency;
  for (const Dimension& each : Shape(system, notes).dimensions()) {
    topology.emplace_back(each.block);
    count.push_back(each.count);
    bandwidth.push_back(fmt::format("{:.6g}", each.bandwidth / 1073741824.0));
    latency.push_back(fmt::format("{:.6g}", each.latency * 1e9));
  }
  std::string out =
      fmt::format("# {}, for the analytical network backend of ASTRA-sim\n", printable(system.name()));
  for (const std::string& note : notes) out += fmt::format("# {}\n", note);
  return out + fmt::format(
                   "topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]  # GB/s as large transfers reach "
                   "them; a GB "
                   "is 2^30 bytes there\nlatency: [ {} ]  # ns, of one hop\n",
                   fmt::join(topology, ", "), fmt::join(count, ", "), fmt::join(bandwidth, ", "),
                   fmt::join(latency, ", "));
}

/// Scheduling as in ASTRA-sim's own validated example of an HGX H100.
std::string system_file(const System& system, std::vector<std::string>& notes) {
  JsonWriter reduce = JsonWriter::array(), exchange = JsonWriter::array();
  for (const Dimension& each : Shape(system, notes).dimensions()) {
    const bool direct = std::string_view(each.block) == "FullyConnected";
    reduce.push_back(direct ? "direct" : "ring");
    exchange.push_back(std::string_view(each.block) == "Ring" ? "ring" : "direct");
  }
  const Device& device = system.device(system.accelerator(0));
  const double half = device.peak_at(Precision::fp16).flops_per_second;
  const double peak = half > 0 ? half : device.peak_at(Precision::fp32).flops_per_second;
  const JsonWriter out = {{"scheduling-policy", "LIFO"},
                          {"endpoint-delay", 10},
                          {"active-chunks-per-dimension", 2},
                          {"preferred-dataset-splits", 4},
                          {"all-reduce-implementation", reduce},
                          {"all-gather-implementation", reduce},
                          {"reduce-scatter-implementation", reduce},
                          {"all-to-all-implementation", exchange},
                          {"collective-optimization", "localBWAware"},
                          {"local-mem-bw", device.memory_bandwidth.bytes_per_second / 1e9},
                          {"boost-mode", 0},
                          {"roofline-enabled", 1},
                          {"peak-perf", peak / 1e12}};
  return out.dump(2) + "\n";
}

}  // namespace

void register_astra_sim(Registry<SystemExporter>& registry) {
  registry.add({"astra-sim", "ASTRA-sim network file (yml of its analytical backend)", network_file});
  registry.add(
      {"astra-sim-system", "ASTRA-sim system file (json: algorithms per dimension, roofline)", system_file});
}

}  // namespace tandem::topologies

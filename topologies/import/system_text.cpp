// SPDX-License-Identifier: Apache-2.0
// A machine as a system file: vertices and link classes with stock figures.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include "base/json_writer.h"

#include "topologies/import/access.h"
#include "topologies/import/choose.h"
#include "topologies/import/hardware.h"
#include "topologies/import/importer.h"
#include "topologies/import/vertex_names.h"

namespace tandem::topologies {

namespace {

/// Without the folders of the machine that it was imported on; several files are joined by " + ".
std::string base_names(std::string_view files) {
  std::string out;
  while (true) {
    const auto end = files.find(" + ");
    const auto one = files.substr(0, end);
    out += one.substr(one.rfind('/') + 1);  // npos + 1 is 0
    if (end == std::string_view::npos) return out;
    out += " + ";
    files.remove_prefix(end + 3);
  }
}

class Writer {
 public:
  Writer(const Machine& machine, const ImportChoices& choices, std::vector<std::string>& notes)
      : m_(machine), choices_(choices), notes_(notes), names_(machine) {}
  std::string run();

 private:
  JsonWriter devices() const;
  JsonWriter vertices() const;
  void pcie_links(JsonWriter& links);
  PcieLink full(std::size_t slot) const;
  JsonWriter pcie_class(const PcieLink& link, const std::vector<Edge>& edges) const;
  void cable_links(JsonWriter& links) const;
  void host_links(JsonWriter& links) const;
  JsonWriter between(const std::vector<Edge>& edges) const;
  const Machine::Slot& slot(int i) const { return m_.tree[static_cast<std::size_t>(i)]; }

  const Machine& m_;
  const ImportChoices& choices_;
  std::vector<std::string>& notes_;
  VertexNames names_;
  std::vector<Device> gpus_, cpus_;                   ///< of each GPU and CPU
  std::vector<std::string> gpu_models_, cpu_models_;  ///< what the file calls them
  double generation_ = 16;                            ///< GT/s where the dump leaves it open
  PcieLink usual_;                                    ///< of most GPUs: the class "pcie"
};

JsonWriter Writer::devices() const {
  JsonWriter out = JsonWriter::object();
  const auto numa = [&](int i) { return m_.cpus[static_cast<std::size_t>(i)].numa; };
  const auto put = [&](const std::string& stem, const std::vector<std::string>& models, const auto& numa_of) {
    std::vector<std::string> order;
    std::map<std::string, std::vector<int>> by_model;
    for (std::size_t i = 0; i < models.size(); ++i) {
      auto& group = by_model[models[i]];
      if (group.empty()) order.push_back(models[i]);
      group.push_back(static_cast<int>(i));
    }
    for (const std::string& model : order) {
      std::vector<int> nodes;
      for (const int i : by_model[model]) nodes.push_back(numa_of(i));
      out[range_of(stem, by_model[model])] = {{"model", model}, {"numa", nodes}};
    }
  };
  put("gpu", gpu_models_, [&](int i) { return numa(slot(m_.gpus[static_cast<std::size_t>(i)].slot).cpu); });
  put("cpu", cpu_models_, numa);
  return out;
}

JsonWriter Writer::vertices() const {
  JsonWriter out = JsonWriter::object();
  const auto numa = [&](int cpu) { return m_.cpus[static_cast<std::size_t>(cpu)].numa; };
  const auto put = [&](const std::string& stem, const char* kind, const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    std::vector<int> nodes, indices;
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      nodes.push_back(numa(cpus[i]));
      indices.push_back(static_cast<int>(i));
    }
    out[range_of(stem, indices)] = {{"kind", kind}, {"numa", nodes}};
  };
  std::vector<int> switches, nics, memories;
  for (const Machine::Slot& each : m_.tree) {
    if (each.kind == Machine::Slot::Kind::bridge) switches.push_back(each.cpu);
  }
  for (const Machine::Nic& nic : m_.nics) nics.push_back(slot(nic.slot).cpu);
  for (std::size_t i = 0; i < m_.cpus.size(); ++i) memories.push_back(static_cast<int>(i));
  put("plx", "pcie_switch", switches);
  put("nic", "nic", nics);
  put("mem", "memory", memories);
  int fabrics = 0;
  for (const Machine::Cable& cable : m_.cables) {
    if (cable.to == Machine::Cable::To::nvswitch) fabrics = std::max(fabrics, cable.b + 1);
  }
  for (int i = 0; i < fabrics; ++i) {
    out[fmt::format("nvswitch{}", i)] = {{"kind", "nvswitch"},
                                         {"note", "all switch chips as one: non-blocking"}};
  }
  return out;
}

JsonWriter Writer::between(const std::vector<Edge>& edges) const {
  JsonWriter out = JsonWriter::array();
  for (const auto& [from, to, count] : group_edges(edges)) {
    JsonWriter pair = JsonWriter::array({from, to});
    if (count != 1) pair.push_back(count);
    out.push_back(std::move(pair));
  }
  return out;
}

/// The connection with what is unknown filled in; a GPU's is no faster than the GPU.
PcieLink Writer::full(std::size_t slot) const {
  const bool gpu = m_.tree[slot].kind == Machine::Slot::Kind::gpu;
  const double own =
      gpu ? pcie_generation(gpus_[static_cast<std::size_t>(names_.of(static_cast<int>(slot)).index)])
          : generation_;
  PcieLink link = m_.tree[slot].link;
  if (link.gigatransfers <= 0) link.gigatransfers = own;
  if (gpu) link.gigatransfers = std::min(link.gigatransfers, own);
  link.gigatransfers = pcie_figures(link.gigatransfers).gigatransfers;
  if (link.lanes <= 0)
    link.lanes =
        gpu ? card_lanes(gpus_[static_cast<std::size_t>(names_.of(static_cast<int>(slot)).index)]) : 16;
  return link;
}

JsonWriter Writer::pcie_class(const PcieLink& link, const std::vector<Edge>& edges) const {
  const PcieFigures& figures = pcie_figures(link.gigatransfers);
  return {{"bandwidth", rate_text(figures.lane.bandwidth.bytes_per_second * link.lanes)},
          {"achieved", figures.lane.achieved},
          {"latency", fmt::format("{:g}us", figures.lane.latency.seconds() * 1e6)},
          {"between", between(edges)},
          {"source", fmt::format("PCIe {}.0 x{}: {}", pcie_number(link.gigatransfers), link.lanes,
                                 figures_source("pcie"))}};
}

void Writer::pcie_links(JsonWriter& links) {
  using Key = std::pair<double, int>;
  std::map<Key, std::vector<Edge>> edges;
  std::map<Key, int> used;
  std::vector<Edge> hosted;
  double hosted_rate = 0;
  for (std::size_t i = 0; i < m_.tree.size(); ++i) {
    const Machine::Slot& each = m_.tree[i];
    const Edge edge{names_.of(static_cast<int>(i)),
                    each.parent >= 0 ? names_.of(each.parent) : VertexName{"cpu", each.cpu}, 1};
    const bool gpu = each.kind == Machine::Slot::Kind::gpu;
    // Beside its own way to the processor a GPU has a slot below a switch where the dump shows one.
    const bool c2c =
        gpu && c2c_figures(gpus_[static_cast<std::size_t>(edge.from.index)]).bandwidth.bytes_per_second > 0;
    if (c2c && each.parent < 0) continue;
    if (!each.on_pci) {
      hosted.push_back(edge);
      const double own = m_.nics[static_cast<std::size_t>(edge.from.index)].megabits * 1e6 / 8;
      hosted_rate = std::max(hosted_rate, own);
      continue;
    }
    const PcieLink link = full(i);
    edges[{link.gigatransfers, link.lanes}].push_back(edge);
    used[{link.gigatransfers, link.lanes}] += gpu ? 1000 : 1;
  }
  if (!used.empty()) {
    const auto most = std::max_element(used.begin(), used.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    usual_ = {most->first.first, most->first.second};
    links["pcie"] = pcie_class(usual_, edges[most->first]);
  }
  for (const auto& [key, of] : edges) {
    if (key == Key{usual_.gigatransfers, usual_.lanes}) continue;
    links[fmt::format("pcie-{}x{}", pcie_number(key.first), key.second)] =
        pcie_class({key.first, key.second}, of);
  }
  if (!hosted.empty()) {
    links["hosted"] = {
        {"bandwidth", rate_text(hosted_rate > 0 ? hosted_rate : 12.5e9)},
        {"latency", "1us"},
        {"between", between(hosted)},
        {"source", "an interface that the dump hangs on the CPU itself; its own rate, latency assumed"}};
  }
}

void Writer::cable_links(JsonWriter& links) const {
  std::map<std::string, std::vector<Edge>>
      edges;  // by figures: GPUs of different kinds have different cables
  std::map<std::string, LinkFigures> figures;
  std::vector<Edge> own;
  for (const Machine::Cable& cable : m_.cables) {
    const LinkFigures f = cable_figures(gpus_[static_cast<std::size_t>(cable.a)]);
    const std::string key = rate_text(f.bandwidth.bytes_per_second);
    figures.emplace(key, f);
    const char* to = cable.to == Machine::Cable::To::gpu        ? "gpu"
                     : cable.to == Machine::Cable::To::nvswitch ? "nvswitch"
                                                                : "cpu";
    edges[key].push_back({{"gpu", cable.a}, {to, cable.b}, cable.count});
  }
  const std::string word = made_by_amd(gpus_) || m_.xgmi ? "xgmi" : "nvlink";
  for (const auto& [key, of] : edges) {
    const LinkFigures& f = figures.at(key);
    const std::string name =
        edges.size() == 1 ? word : fmt::format("{}-{}", word, key.substr(0, key.find("GB")));
    links[name] = {
        {"bandwidth", key},
        {"achieved", f.achieved},
        {"latency", fmt::format("{:g}us", f.latency.seconds() * 1e6)},
        {"between", between(of)},
        {"source", fmt::format("{}, of one cable: {}", m_.source, figures_source("architectures"))}};
  }
  LinkFigures c2c;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const LinkFigures f = c2c_figures(gpus_[i]);
    if (f.bandwidth.bytes_per_second <= 0) continue;
    c2c = f;
    own.push_back({{"gpu", static_cast<int>(i)}, {"cpu", slot(m_.gpus[i].slot).cpu}, 1});
  }
  if (own.empty()) return;
  links["c2c"] = {{"bandwidth", rate_text(c2c.bandwidth.bytes_per_second)},
                  {"achieved", c2c.achieved},
                  {"latency", fmt::format("{:g}us", c2c.latency.seconds() * 1e6)},
                  {"between", between(own)},
                  {"source", figures_source("c2c")}};
}

/// Between NUMA nodes, and to their memory.
void Writer::host_links(JsonWriter& links) const {
  std::vector<Edge> sockets;
  for (std::size_t a = 0; a < cpus_.size(); ++a) {
    for (std::size_t b = a + 1; b < cpus_.size(); ++b)
      sockets.push_back({{"cpu", static_cast<int>(a)}, {"cpu", static_cast<int>(b)}, 1});
  }
  if (!sockets.empty()) {
    const LinkFigures f = socket_figures(cpus_[0]);
    for (Edge& edge : sockets) edge.count = f.lanes;
    links["socket"] = {{"bandwidth", rate_text(f.bandwidth.bytes_per_second)},
                       {"achieved", f.achieved},
                       {"latency", fmt::format("{:g}us", f.latency.seconds() * 1e6)},
                       {"between", between(sockets)},
                       {"source", fmt::format("{}: {}", cpus_[0].architecture, figures_source("sockets"))}};
  }
  std::map<double, std::vector<Edge>> memory;
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    // A NUMA node that is part of a processor has its share of the channels.
    const int cores = m_.cpus[i].cores;
    const bool part = cpus_.size() > 2 && cores > 0 && 2 * cores <= cpus_[i].units;
    const double share = part ? static_cast<double>(cores) / cpus_[i].units : 1;
    memory[share * cpus_[i].memory_bandwidth.bytes_per_second].push_back(
        {{"cpu", static_cast<int>(i)}, {"mem", static_cast<int>(i)}, 1});
  }
  for (const auto& [bandwidth, edges] : memory) {
    const std::string name = memory.size() == 1 ? "memory" : fmt::format("memory-{:.0f}", bandwidth / 1e9);
    links[name] = {
        {"bandwidth", rate_text(bandwidth)},
        {"achieved", 0.8},
        {"latency", "0.1us"},
        {"duplex", "half"},
        {"between", between(edges)},
        {"source",
         "the memory channels of one NUMA node, shared by reads and writes; 0.8 and latency recalled"}};
  }
}

std::string Writer::run() {
  for (Chosen& gpu : choose_gpus(m_, choices_, notes_)) {
    gpu_models_.push_back(gpu.model());
    gpus_.push_back(std::move(gpu.device));
  }
  for (Chosen& cpu : choose_cpus(m_, choices_, notes_)) {
    cpu_models_.push_back(cpu.model());
    cpus_.push_back(std::move(cpu.device));
  }
  if (!gpus_.empty()) generation_ = pcie_generation(gpus_[0]);
  const std::string library = !choices_.library.empty() ? choices_.library
                              : made_by_amd(gpus_)      ? "rccl"
                              : gpus_.empty()           ? "mpi"
                                                        : "nccl-2.28";
  JsonWriter out;
  out["name"] = choices_.name.empty() ? "imported" : choices_.name;
  std::string models;
  std::set<std::string> named;
  for (const Device& gpu : gpus_) {
    if (!named.insert(gpu.name).second) continue;
    const auto count =
        std::count_if(gpus_.begin(), gpus_.end(), [&](const Device& d) { return d.name == gpu.name; });
    models += fmt::format("{}{}x {}", models.empty() ? "" : ", ", count, gpu.name);
  }
  out["summary"] =
      gpus_.empty() ? fmt::format("{} NUMA nodes without GPUs, imported from {}", m_.cpus.size(), m_.source)
                    : fmt::format("{} on {} NUMA node{}, imported from {}", models, m_.cpus.size(),
                                  m_.cpus.size() == 1 ? "" : "s", m_.source);
  out["sources"] = JsonWriter::array(
      {fmt::format("{} ({}); link figures are stock figures by generation", m_.source, base_names(m_.file))});
  out["nodes"] = 1;
  out["devices"] = devices();
  out["vertices"] = vertices();
  JsonWriter links = JsonWriter::object();
  cable_links(links);
  pcie_links(links);
  host_links(links);
  out["links"] = std::move(links);
  const PcieLink usual = usual_.gigatransfers > 0 ? usual_ : PcieLink{generation_, 16};
  out["peer_access"] = peer_access(m_, gpus_, cpus_, library, usual);
  int cores = 0;
  for (std::size_t i = 0; i < cpus_.size(); ++i)
    cores += m_.cpus[i].cores > 0 ? m_.cpus[i].cores : cpus_[i].units;
  if (const auto gpus = static_cast<int>(m_.gpus.size()); cores < gpus)
    notes_.push_back(few_cores(cores, gpus));
  if (cores > 0) out["host"]["cores"] = cores;
  out["host"]["source"] = "CPU affinities where the dump has them, else the processors' own";
  if (JsonWriter net = network(m_, gpus_, choices_, notes_); !net.is_null()) out["network"] = std::move(net);
  out["communication"] = {{"library", library}};
  if (!notes_.empty()) {
    std::string all;
    for (const std::string& each : notes_) all += (all.empty() ? "" : "; ") + each;
    out["note"] = all;
  }
  return out.dump_wrapped() + "\n";
}

}  // namespace

std::string system_text(const Machine& machine, const ImportChoices& choices,
                        std::vector<std::string>& notes) {
  return Writer(machine, choices, notes).run();
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
// What NCCL (and RCCL) write to NCCL_TOPO_DUMP_FILE and read from NCCL_TOPO_FILE. Format: src/graph/xml.cc
// and topo.cc of NCCL: PCI elements nest as the switches do, and platform files may hold nothing but them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text.h"
#include "topologies/import/importer.h"
#include "topologies/import/xml.h"

namespace tandem::topologies {

namespace {

/// "32.0 GT/s PCIe" -> 32; unreadable or empty -> 0, as NCCL does.
double gigatransfers(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc{} && value > 0 && value <= 256 ? value : 0;
}

/// "000000ff,ffff0000,00ffffff", most significant group first: the lengths of its runs of ones.
std::vector<int> mask_ranges(std::string_view mask) {
  std::vector<int> out;
  bool open = false;
  for (std::size_t i = mask.size(); i-- > 0;) {
    if (mask[i] == ',') continue;
    int nibble = 0;
    if (std::from_chars(mask.data() + i, mask.data() + i + 1, nibble, 16).ec != std::errc{}) return {};
    for (int bit = 0; bit < 4; ++bit) {
      const bool one = ((nibble >> bit) & 1) != 0;
      if (one && !open) out.push_back(0);
      if (one) ++out.back();
      open = one;
    }
  }
  return out;
}

class NcclReader {
 public:
  NcclReader(std::string_view text, const std::string& file) : xml_(text, file, "system") {
    out_.source = "nccl-xml";
    out_.file = printable(file);
  }
  Machine read();

 private:
  bool is_gpu(const pugi::xml_node& pci) const;
  bool is_nic(const pugi::xml_node& pci) const;
  void census(const pugi::xml_node& node);
  void cpu(const pugi::xml_node& node);
  void pci(const pugi::xml_node& node, int parent);
  void gpu(const pugi::xml_node& pci, int slot);
  void nic(const pugi::xml_node& holder, int slot);
  void cables();
  void fabric_cables();
  void remarks();
  void narrow_uplinks();

  XmlText xml_;
  Machine out_;
  int gpu_elements_ = 0, net_elements_ = 0, leaves_ = 0, unclassed_ = 0, unknown_links_ = 0, odd_speeds_ = 0,
      self_cables_ = 0;
  bool cable_elements_ = false;
  std::string host_;
  std::map<std::string, int> by_bus_;      ///< GPU index
  std::vector<pugi::xml_node> gpu_nodes_;  ///< <gpu> of each GPU, empty where the file has none
  std::vector<std::string> outside_;       ///< targets of cables that the file does not hold
};

constexpr int kMostLanes = 32;  // of PCIe

bool maker_of_gpus(const std::string& vendor) {
  return vendor.empty() || vendor == "0x10de" || vendor == "0x1002" || vendor == "0xffff" ||
         vendor == "0x0000";
}

bool NcclReader::is_gpu(const pugi::xml_node& pci) const {
  if (pci.child("gpu")) return true;
  if (gpu_elements_ > 0) return false;
  const std::string type = xml_.text(pci, "class");
  const bool display = type.starts_with("0x0302") || type.starts_with("0x0300") ||
                       type.starts_with("0x0380") || type.starts_with("0x1200");
  return display && maker_of_gpus(xml_.text(pci, "vendor"));
}

bool NcclReader::is_nic(const pugi::xml_node& pci) const {
  if (pci.child("nic")) return true;
  return net_elements_ == 0 && xml_.text(pci, "class").starts_with("0x02");
}

void NcclReader::census(const pugi::xml_node& node) {
  for (const pugi::xml_node& child : node.children()) {
    const std::string_view tag = child.name();
    if (tag == "gpu") ++gpu_elements_;
    if (tag == "net") ++net_elements_;
    if (tag == "nvlink" || tag == "xgmi") cable_elements_ = true;
    if (tag == "pci" && !child.first_child()) {
      ++leaves_;
      if (!child.attribute("class")) ++unclassed_;
    }
    census(child);
  }
}

void NcclReader::cpu(const pugi::xml_node& node) {
  const std::string host = xml_.text(node, "host_hash");
  if (out_.cpus.empty()) host_ = host;
  if (host != host_) return;  // another machine: counted in remarks()
  if (out_.cpus.size() >= kMaxNumaNodes) xml_.fail(node, fmt::format("more than {} CPUs", kMaxNumaNodes));
  Machine::Cpu cpu;
  cpu.numa = static_cast<int>(xml_.integer(node, "numaid", -1, -1, 1023));
  cpu.arch = xml_.text(node, "arch");
  cpu.vendor = xml_.text(node, "vendor");
  cpu.family = static_cast<int>(xml_.integer(node, "familyid", -1, -1, 1 << 20));
  cpu.model = static_cast<int>(xml_.integer(node, "modelid", -1, -1, 1 << 20));
  // NCCL adds the extended family shifted by four bits; cpuid's rule adds it as it is.
  if (cpu.family > 15 && cpu.family % 16 == 15) cpu.family = 15 + cpu.family / 16;
  std::tie(cpu.threads, cpu.cores) = count_processors(mask_ranges(node.attribute("affinity").value()));
  out_.cpus.push_back(cpu);
  for (const pugi::xml_node& child : node.children("pci")) pci(child, -1);
  for (const pugi::xml_node& child : node.children("nic")) {
    if (!child.child("net")) continue;
    const int slot = static_cast<int>(out_.tree.size());
    out_.tree.push_back({.kind = Machine::Slot::Kind::nic, .cpu = static_cast<int>(out_.cpus.size()) - 1});
    out_.tree.back().on_pci = false;
    nic(node, slot);
    break;
  }
}

void NcclReader::pci(const pugi::xml_node& node, int parent) {
  const bool gpu_here = is_gpu(node), nic_here = !gpu_here && is_nic(node);
  const bool bridge = !gpu_here && !nic_here;
  if (bridge && !node.child("pci")) return;  // a disk, or a port with nothing of use below
  const int slot = static_cast<int>(out_.tree.size());
  Machine::Slot entry;
  entry.kind = gpu_here   ? Machine::Slot::Kind::gpu
               : nic_here ? Machine::Slot::Kind::nic
                          : Machine::Slot::Kind::bridge;
  entry.parent = parent;
  entry.cpu = static_cast<int>(out_.cpus.size()) - 1;
  const std::string speed = xml_.text(node, "link_speed");
  entry.link.gigatransfers = gigatransfers(speed);
  entry.link.lanes = static_cast<int>(xml_.integer(node, "link_width", 0, 0, 255));
  if (entry.link.lanes > kMostLanes) entry.link.lanes = 0;  // 63 and 255: Linux does not know
  entry.bus = xml_.text(node, "busid");
  std::transform(entry.bus.begin(), entry.bus.end(), entry.bus.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (entry.link.gigatransfers == 0) ++(speed.empty() ? unknown_links_ : odd_speeds_);
  out_.tree.push_back(entry);
  if (gpu_here) gpu(node, slot);
  if (nic_here) nic(node, slot);
  for (const pugi::xml_node& child : node.children("pci")) {
    if (!bridge) xml_.fail(child, "a device below a device: damaged");
    pci(child, slot);
  }
}

void NcclReader::gpu(const pugi::xml_node& pci, int slot) {
  if (out_.gpus.size() >= kMaxImported) xml_.fail(pci, fmt::format("more than {} GPUs", kMaxImported));
  const pugi::xml_node node = pci.child("gpu");
  Machine::Gpu gpu;
  gpu.slot = slot;
  gpu.number = static_cast<int>(xml_.integer(node, "dev", -1, -1, 100000));
  gpu.sm = static_cast<int>(xml_.integer(node, "sm", 0, 0, 100000));
  gpu.gcn = xml_.text(node, "gcn");
  if (!gpu.gcn.empty()) gpu.sm = 0;  // AMD writes the number of compute units there
  gpu.gpudirect = static_cast<int>(xml_.integer(node, "gdr", -1, -1, 1));
  const std::string vendor = xml_.text(pci, "vendor"), device = xml_.text(pci, "device");
  if (vendor.size() == 6 && device.size() == 6) gpu.pci_id = vendor.substr(2) + ":" + device.substr(2);
  if (const pugi::xml_node c2c = node.child("c2c")) {
    // In MB/s times links, src/graph/topo.cc.
    gpu.c2c = xml_.real(c2c, "bw", 0, 0, 1e7) * xml_.real(c2c, "count", 1, 0, 1024) / 1000;
  }
  const std::string& bus = out_.tree[static_cast<std::size_t>(slot)].bus;
  if (!bus.empty() && !by_bus_.emplace(bus, static_cast<int>(out_.gpus.size())).second)
    xml_.fail(pci, fmt::format("the GPU at {} stands twice: damaged", bus));
  out_.gpus.push_back(gpu);
  gpu_nodes_.push_back(node);
}

/// The ports below one card (or below the CPU) are one NIC: they share its connection.
void NcclReader::nic(const pugi::xml_node& holder, int slot) {
  if (out_.nics.size() >= kMaxImported) xml_.fail(holder, fmt::format("more than {} NICs", kMaxImported));
  Machine::Nic nic;
  nic.slot = slot;
  nic.ports = 0;
  std::vector<std::string> broken;
  for (const pugi::xml_node& each : holder.children("nic")) {
    for (const pugi::xml_node& net : each.children("net")) {
      const double speed = xml_.real(net, "speed", 0, -1e9, 1e9);
      const std::string name = xml_.text(net, "name");
      if (nic.ports++ == 0) nic.label = name;
      if (nic.names.size() < kMaxImported) nic.names.push_back(name);
      if (speed < 1 && net.attribute("speed")) broken.push_back(name);
      nic.megabits += speed >= 1 ? speed : net.attribute("speed") ? 10'000 : 0;
    }
  }
  if (!broken.empty()) {
    out_.notes.push_back(
        fmt::format("{} has no valid speed; 10 Gbit/s is taken, as NCCL does", list_some(broken)));
  }
  if (nic.label.empty()) nic.label = out_.tree[static_cast<std::size_t>(slot)].bus;
  nic.ports = std::max(1, nic.ports);
  out_.nics.push_back(nic);
}

/// GPU to GPU, to its CPU, or to switches, whose chips count as one fabric.
void NcclReader::cables() {
  std::map<std::pair<int, int>, int> counted;
  for (std::size_t g = 0; g < gpu_nodes_.size(); ++g) {
    int to_switch = 0, to_cpu = 0;
    for (const pugi::xml_node& child : gpu_nodes_[g].children()) {
      const std::string_view tag = child.name();
      if (tag != "nvlink" && tag != "xgmi") continue;
      out_.xgmi |= tag == "xgmi";
      const int count = static_cast<int>(xml_.integer(child, "count", 1, 1, kMostCables));
      const std::string type = xml_.text(child, "tclass");
      std::string target = xml_.text(child, "target");
      std::transform(target.begin(), target.end(), target.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (type.starts_with("0x068001")) {
        to_cpu += count;
      } else if (type.starts_with("0x0680")) {
        to_switch += count;
      } else if (const auto at = by_bus_.find(target); at == by_bus_.end()) {
        outside_.push_back(target);
      } else if (at->second == static_cast<int>(g)) {
        ++self_cables_;
      } else if (!counted.emplace(std::pair(static_cast<int>(g), at->second), count).second) {
        xml_.fail(child, fmt::format("the cables to {} stand twice: damaged", target));
      }
    }
    const int gpu = static_cast<int>(g);
    const int cpu = out_.tree[static_cast<std::size_t>(out_.gpus[g].slot)].cpu;
    if (to_switch > kMostCables || to_cpu > kMostCables)
      xml_.fail(gpu_nodes_[g],
                fmt::format("{} cables: a GPU has {} at most", std::max(to_switch, to_cpu), kMostCables));
    if (to_switch > 0) out_.cables.push_back({Machine::Cable::To::nvswitch, gpu, 0, to_switch});
    if (to_cpu > 0) out_.cables.push_back({Machine::Cable::To::cpu, gpu, cpu, to_cpu});
  }
  for (const auto& [pair, count] : counted) {
    const auto back = counted.find({pair.second, pair.first});
    const int other = back == counted.end() ? 0 : back->second;
    if (other != count) {
      xml_.fail(gpu_nodes_[static_cast<std::size_t>(pair.first)],
                fmt::format("damaged: {} cables from GPU {} to GPU {}, but {} back", count, pair.first,
                            pair.second, other));
    }
    if (pair.first < pair.second)
      out_.cables.push_back({Machine::Cable::To::gpu, pair.first, pair.second, count});
  }
}

void NcclReader::remarks() {
  const auto note = [&](std::string text) { out_.notes.push_back(std::move(text)); };
  int others = 0;
  for (const pugi::xml_node& node : xml_.root().children("cpu"))
    others += xml_.text(node, "host_hash") != host_ ? 1 : 0;
  if (others > 0) {
    note(fmt::format(
        "this dump holds several hosts; the first is imported ({} CPUs of others left out): scale it with "
        "--set nodes=N",
        others));
  }
  if (!outside_.empty()) {
    note(fmt::format("NVLink to {} leads to GPUs that are not in this dump: left out",
                     fmt::format("{} cable group{}", outside_.size(), outside_.size() == 1 ? "" : "s")));
  }
  if (self_cables_ > 0)
    note(fmt::format("cable groups that lead from a GPU back to itself are left out: {}", self_cables_));
  if (odd_speeds_ > 0)
    note(fmt::format("link speeds that are unreadable and count as unknown: {}", odd_speeds_));
  const bool bridges = std::any_of(out_.tree.begin(), out_.tree.end(), [](const Machine::Slot& slot) {
    return slot.kind == Machine::Slot::Kind::bridge;
  });
  const bool hidden = out_.gpus.size() > 1 && !bridges && unknown_links_ > 0 && odd_speeds_ == 0;
  if (hidden && unknown_links_ >= static_cast<int>(out_.gpus.size())) {
    note(
        "this dump hides the PCIe tree (no switches, no link speeds), as in a virtual machine; switches that "
        "devices "
        "share, if any, are not in the system");
  }
  if (unknown_links_ > 0) {
    note(fmt::format(
        "PCI elements without a link speed: {}; the GPU's own generation is taken (NCCL takes 3.0 x16)",
        unknown_links_));
  }
}

/// Of switches that stay after collapse().
void NcclReader::narrow_uplinks() {
  std::vector<std::string> narrow;
  for (const Machine::Slot& slot : out_.tree) {
    if (slot.parent < 0 || slot.link.gigatransfers <= 0) continue;
    const Machine::Slot& up = out_.tree[static_cast<std::size_t>(slot.parent)];
    const bool uplink = up.kind == Machine::Slot::Kind::bridge && up.link.gigatransfers > 0 && up.parent < 0;
    if (uplink && up.link.gigatransfers < slot.link.gigatransfers &&
        std::find(narrow.begin(), narrow.end(), up.bus) == narrow.end())
      narrow.push_back(up.bus);
  }
  if (!narrow.empty()) {
    out_.notes.push_back(fmt::format(
        "the uplink of the switch at {} is slower than what hangs below it: taken as written, as NCCL does",
        list_some(narrow)));
  }
}

Machine NcclReader::read() {
  census(xml_.root());
  for (const pugi::xml_node& node : xml_.root().children("cpu")) cpu(node);
  if (out_.cpus.empty()) xml_.fail(xml_.root(), "no <cpu> in it");
  if (out_.gpus.empty()) {
    xml_.fail(
        xml_.root(),
        unclassed_ > 0 && unclassed_ == leaves_
            ? fmt::format(
                  "its {} PCI elements hold bus numbers alone, so GPUs cannot be told from NICs; write a "
                  "full dump on the machine with NCCL_TOPO_DUMP_FILE",
                  leaves_)
            : std::string("no GPU in it (PCI class 0x0302, 0x0300, 0x0380, 0x1200, or a gpu element)"));
  }
  out_.knows_cables = gpu_elements_ > 0;
  cables();
  remarks();
  if (out_.number_cpus() > 0) out_.notes.push_back("NUMA ids that are -1 or appear twice are renumbered");
  out_.collapse();
  narrow_uplinks();
  out_.number_gpus();
  return std::move(out_);
}

bool looks_like_nccl_xml(std::string_view text) {
  return text.substr(0, 1 << 16).find("<system") != std::string_view::npos;
}

}  // namespace

void register_nccl_xml(Registry<SystemImporter>& registry) {
  registry.add({"nccl-xml", "a topology file of NCCL or RCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE)",
                looks_like_nccl_xml, [](std::string_view text, const std::string& file) {
                  return NcclReader(text, file).read();
                }});
}

}  // namespace tandem::topologies

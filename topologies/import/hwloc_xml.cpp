// SPDX-License-Identifier: Apache-2.0
// hwloc's XML (lstopo --whole-io machine.xml), versions 1 to 3: packages and NUMA nodes, the PCI tree below
// them, GPUs and NICs by their PCI class, NVLinks by the NVLinkBandwidth distances. Format: hwloc.dtd,
// hwloc2.dtd.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "topologies/import/hardware.h"
#include "topologies/import/importer.h"
#include "topologies/import/xml.h"

namespace tandem::topologies {

namespace {

/// "0x00000303,,0x03" (32-bit groups, most significant first): the positions of its ones, at most 4096.
std::vector<int> bits(std::string_view mask) {
  const auto groups = split(mask, ',');
  std::vector<int> out;
  for (std::size_t g = 0; g < groups.size() && g < 128; ++g) {
    std::string_view text = groups[groups.size() - 1 - g];
    if (text.starts_with("0x")) text.remove_prefix(2);
    uint32_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, 16);
    for (int bit = 0; bit < 32; ++bit) {
      if (((value >> bit) & 1U) != 0) out.push_back(static_cast<int>(32 * g) + bit);
    }
  }
  return out;
}

class HwlocReader {
 public:
  HwlocReader(std::string_view text, const std::string& file) : xml_(text, file, "topology") {
    out_.source = "hwloc-xml";
    out_.file = printable(file);
  }
  Machine read();

 private:
  /// What an object inherits from those around it.
  struct Around {
    std::vector<int> nodeset;
    int bridge = -1;
    int package = -1;
  };
  struct Package {
    std::string vendor, description;
    int family = -1, model = -1;
    std::vector<int> nodes;
  };
  std::string info(const pugi::xml_node& node, std::string_view name) const;
  void package(const pugi::xml_node& node, Around& around);
  void processors(const std::string& type, const Around& around);
  void object(const pugi::xml_node& node, Around around);
  void bridge(const pugi::xml_node& node, Around& around);
  void device(const pugi::xml_node& node, const Around& around);
  void gpu(const pugi::xml_node& node, int slot, const std::string& id);
  void nic(const pugi::xml_node& node, int slot);
  Machine::Slot slot(const pugi::xml_node& node, Machine::Slot::Kind kind, const Around& around) const;
  void place_on_cpus();
  void cables();
  void cable_matrix(const pugi::xml_node& node);
  std::vector<std::string> words(const pugi::xml_node& node, const char* tag, std::size_t most) const;

  XmlText xml_;
  Machine out_;
  std::vector<Package> packages_;
  std::map<int, Machine::Cpu> cpus_;  ///< by NUMA node, those with processors
  bool has_pci_ = false;
  std::map<std::string, int> gpu_by_gp_, package_by_gp_;
  std::set<std::string> switches_;  ///< gp_index of NVSwitches: all are one fabric
};

std::string HwlocReader::info(const pugi::xml_node& node, std::string_view name) const {
  for (const pugi::xml_node& each : node.children("info")) {
    if (each.attribute("name").value() == name) return printable(each.attribute("value").value());
  }
  return "";
}

void HwlocReader::package(const pugi::xml_node& node, Around& around) {
  if (packages_.size() >= kMaxImported) xml_.fail(node, fmt::format("more than {} packages", kMaxImported));
  const auto number = [&](const char* key) {
    const std::string text = info(node, key);
    int value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  around.package = static_cast<int>(packages_.size());
  package_by_gp_[xml_.text(node, "gp_index")] = around.package;
  packages_.push_back({info(node, "CPUVendor"), info(node, "CPUModel"), number("CPUFamilyNumber"),
                       number("CPUModelNumber"), around.nodeset});
}

/// A core or a processing unit: counted to the first NUMA node that it is near.
void HwlocReader::processors(const std::string& type, const Around& around) {
  const int node = around.nodeset.empty() ? 0 : around.nodeset[0];
  if (cpus_.size() >= kMaxNumaNodes && cpus_.count(node) == 0) return;  // read() refuses it
  Machine::Cpu& cpu = cpus_[node];
  cpu.numa = node;
  cpu.counted = true;
  (type == "PU" ? cpu.threads : cpu.cores) += 1;
  if (around.package < 0) return;
  const Package& package = packages_[static_cast<std::size_t>(around.package)];
  cpu.vendor = package.vendor;
  cpu.description = package.description;
  cpu.family = package.family;
  cpu.model = package.model;
}

Machine::Slot HwlocReader::slot(const pugi::xml_node& node, Machine::Slot::Kind kind,
                                const Around& around) const {
  Machine::Slot out;
  out.kind = kind;
  out.parent = around.bridge;
  out.cpu = around.nodeset.empty() ? 0 : around.nodeset[0];  // a NUMA number until place_on_cpus()
  out.bus = xml_.text(node, "pci_busid");
  std::transform(out.bus.begin(), out.bus.end(), out.bus.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  out.link = pcie_link(xml_.real(node, "pci_link_speed", 0, 0, 1e6));
  return out;
}

void HwlocReader::bridge(const pugi::xml_node& node, Around& around) {
  has_pci_ = true;
  if (xml_.text(node, "bridge_type").starts_with("0")) return;  // the host bridge
  out_.tree.push_back(slot(node, Machine::Slot::Kind::bridge, around));
  around.bridge = static_cast<int>(out_.tree.size()) - 1;
}

void HwlocReader::device(const pugi::xml_node& node, const Around& around) {
  has_pci_ = true;
  // "0302 [10de:15f9] [10de:116b] a1 00"
  const std::string type = xml_.text(node, "pci_type");
  const auto open = type.find('[');
  const std::string id =
      open != std::string::npos && type.size() >= open + 10 ? type.substr(open + 1, 9) : "";
  const bool maker = id.starts_with("10de:") || id.starts_with("1002:");
  const bool display = type.starts_with("0302") || type.starts_with("0300") || type.starts_with("0380") ||
                       type.starts_with("1200");
  const bool is_gpu = maker && display, is_nic = type.starts_with("02");
  // hwloc calls the far end of an NVLink that is no GPU by its subtype (topology-nvml.c), also where a
  // virtual machine hides its PCI class.
  if (xml_.text(node, "subtype") == "NVSwitch" || (id.starts_with("10de:") && type.starts_with("0680")))
    switches_.insert(xml_.text(node, "gp_index"));
  if (!is_gpu && !is_nic) return;
  const auto index = static_cast<int>(out_.tree.size());
  out_.tree.push_back(slot(node, is_gpu ? Machine::Slot::Kind::gpu : Machine::Slot::Kind::nic, around));
  is_gpu ? gpu(node, index, id) : nic(node, index);
}

void HwlocReader::gpu(const pugi::xml_node& node, int slot, const std::string& id) {
  if (out_.gpus.size() >= kMaxImported) xml_.fail(node, fmt::format("more than {} GPUs", kMaxImported));
  Machine::Gpu gpu;
  gpu.slot = slot;
  gpu.pci_id = id;
  gpu_by_gp_[xml_.text(node, "gp_index")] = static_cast<int>(out_.gpus.size());
  for (const pugi::xml_node& child : node.children("object")) {
    const std::string name = xml_.text(child, "name");
    gpu_by_gp_[xml_.text(child, "gp_index")] = static_cast<int>(out_.gpus.size());
    if (gpu.model.empty()) gpu.model = info(child, "GPUModel");
    for (const std::string_view backend : {"nvml", "rsmi"}) {
      if (name.starts_with(backend)) std::from_chars(name.data() + 4, name.data() + name.size(), gpu.number);
    }
  }
  out_.gpus.push_back(gpu);
}

void HwlocReader::nic(const pugi::xml_node& node, int slot) {
  if (out_.nics.size() >= kMaxImported) xml_.fail(node, fmt::format("more than {} NICs", kMaxImported));
  Machine::Nic nic;
  nic.slot = slot;
  for (const pugi::xml_node& child : node.children("object")) {
    const std::string name = xml_.text(child, "name");
    // The verbs name ("mlx5_0") is what other tools use; network names have no underscore.
    if (nic.label.empty() || name.find('_') != std::string::npos) nic.label = name;
    if (nic.names.size() < kMaxImported) nic.names.push_back(name);
  }
  if (nic.label.empty()) nic.label = out_.tree[static_cast<std::size_t>(slot)].bus;
  out_.nics.push_back(nic);
}

void HwlocReader::object(const pugi::xml_node& node, Around around) {
  const std::string type = xml_.text(node, "type");
  if (node.attribute("nodeset")) {
    const auto own = bits(node.attribute("nodeset").value());
    if (!own.empty()) around.nodeset = own;
  }
  if (type == "Package" || type == "Socket") package(node, around);
  if (type == "Core" || type == "PU") processors(type, around);
  if (type == "Bridge") bridge(node, around);
  if (type == "PCIDev") device(node, around);
  for (const pugi::xml_node& child : node.children("object")) object(child, around);
}

/// NUMA numbers become indices; nodes without processors (memory of a GPU) count to the first that has some.
void HwlocReader::place_on_cpus() {
  std::map<int, int> index;
  for (const auto& [numa, cpu] : cpus_) {
    index[numa] = static_cast<int>(out_.cpus.size());
    out_.cpus.push_back(cpu);
  }
  if (out_.cpus.empty()) xml_.fail(xml_.root(), "no processors in it");
  if (out_.cpus.size() >= kMaxNumaNodes)
    xml_.fail(xml_.root(), fmt::format("{} or more NUMA nodes", kMaxNumaNodes));
  const std::string arch = info(xml_.root().child("object"), "Architecture");
  for (Machine::Cpu& cpu : out_.cpus) cpu.arch = arch.empty() ? info(xml_.root(), "Architecture") : arch;
  for (Machine::Slot& slot : out_.tree) {
    const auto at = index.find(slot.cpu);
    slot.cpu = at == index.end() ? 0 : at->second;
  }
}

/// The words of all elements `tag`: long lists are cut into several.
std::vector<std::string> HwlocReader::words(const pugi::xml_node& node, const char* tag,
                                            std::size_t most) const {
  std::vector<std::string> out;
  for (const pugi::xml_node& each : node.children(tag)) {
    for (const std::string& word : split(each.child_value(), ' ')) {
      if (word.find_first_not_of("\r\n\t") == std::string::npos) continue;
      if (out.size() >= most) xml_.fail(each, fmt::format("more than {} values", most));
      out.push_back(word);
    }
  }
  return out;
}

void HwlocReader::cable_matrix(const pugi::xml_node& node) {
  const auto names = words(node, "indexes", 4 * kMaxImported);
  const auto values = words(node, "u64values", names.size() * names.size());
  if (names.empty() || values.size() != names.size() * names.size())
    xml_.fail(node, fmt::format("damaged: {} values for {} x {}", values.size(), names.size(), names.size()));
  enum class What : uint8_t { gpu, cpu, fabric, other };
  const auto resolve = [&](const std::string& word) -> std::pair<What, int> {
    const std::string gp = word.substr(word.find(':') == std::string::npos ? 0 : word.find(':') + 1);
    if (const auto at = gpu_by_gp_.find(gp); at != gpu_by_gp_.end()) return {What::gpu, at->second};
    if (const auto at = package_by_gp_.find(gp); at != package_by_gp_.end()) return {What::cpu, at->second};
    return {switches_.count(gp) != 0 ? What::fabric : What::other, 0};
  };
  std::map<std::tuple<Machine::Cable::To, int, int>, int> counts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [what, gpu] = resolve(names[i]);
    if (what != What::gpu) continue;
    const Machine::Gpu& own = out_.gpus[static_cast<std::size_t>(gpu)];
    const double rate = cable_rate(own.pci_id);  // GB/s of one
    for (std::size_t j = 0; j < names.size(); ++j) {
      double megabytes = 0;
      const std::string& word = values[i * names.size() + j];
      std::from_chars(word.data(), word.data() + word.size(), megabytes);
      const auto [other, index] = resolve(names[j]);
      if (i == j || !(megabytes >= 1) || megabytes > 1e7) continue;
      const int count = std::max(1, static_cast<int>(std::lround(megabytes / 1000 / rate)));
      const int cpu = out_.tree[static_cast<std::size_t>(own.slot)].cpu;
      if (other == What::gpu && index > gpu) counts[{Machine::Cable::To::gpu, gpu, index}] = count;
      if (other == What::cpu) counts[{Machine::Cable::To::cpu, gpu, cpu}] = count;
      if (other == What::fabric) counts[{Machine::Cable::To::nvswitch, gpu, 0}] += count;
    }
  }
  for (const auto& [ends, count] : counts) {
    if (count > kMostCables)
      xml_.fail(node, fmt::format("{} cables: a GPU has {} at most", count, kMostCables));
    out_.cables.push_back({std::get<0>(ends), std::get<1>(ends), std::get<2>(ends), count});
  }
  out_.knows_cables = true;
}

void HwlocReader::cables() {
  for (const char* tag : {"distances2", "distances2hetero"}) {
    for (const pugi::xml_node& node : xml_.root().children(tag)) {
      if (!out_.knows_cables && xml_.text(node, "name") == "NVLinkBandwidth") cable_matrix(node);
    }
  }
}

Machine HwlocReader::read() {
  for (const pugi::xml_node& node : xml_.root().children("object")) object(node, {});
  place_on_cpus();
  cables();
  const auto note = [&](std::string text) { out_.notes.push_back(std::move(text)); };
  if (!has_pci_) {
    note(
        "this dump holds no PCI devices (hwloc was asked without I/O: lstopo --whole-io): a system of CPUs "
        "alone");
  } else if (out_.gpus.empty()) {
    note("no GPU among the PCI devices: a system of CPUs alone");
  }
  out_.collapse();
  out_.number_gpus();
  return std::move(out_);
}

bool looks_like_hwloc_xml(std::string_view text) {
  return text.substr(0, 1 << 16).find("<topology") != std::string_view::npos;
}

}  // namespace

void register_hwloc_xml(Registry<SystemImporter>& registry) {
  registry.add(
      {"hwloc-xml", "hwloc's description of a machine (lstopo --whole-io machine.xml)", looks_like_hwloc_xml,
       [](std::string_view text, const std::string& file) { return HwlocReader(text, file).read(); }});
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
// Several descriptions of one machine -> one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "topologies/import/importer.h"

namespace tandem::topologies {

namespace {

constexpr std::size_t kMostNamed = 4;  // contradictions of one kind that are spelt out

/// Cables between two GPUs as topo -m counts them: direct ones, else those that both have to a switch.
class CableTable {
 public:
  explicit CableTable(const Machine& machine) {
    for (const Machine::Cable& cable : machine.cables) {
      if (cable.to == Machine::Cable::To::gpu) direct_[std::minmax(cable.a, cable.b)] += cable.count;
      if (cable.to == Machine::Cable::To::nvswitch) fabric_[{cable.b, cable.a}] += cable.count;
      fabrics_ = std::max(fabrics_, cable.to == Machine::Cable::To::nvswitch ? cable.b + 1 : 0);
    }
  }
  int between(int a, int b) const {
    if (const auto at = direct_.find(std::minmax(a, b)); at != direct_.end()) return at->second;
    int out = 0;
    for (int f = 0; f < fabrics_; ++f) {
      const auto of_a = fabric_.find({f, a}), of_b = fabric_.find({f, b});
      if (of_a != fabric_.end() && of_b != fabric_.end()) out += std::min(of_a->second, of_b->second);
    }
    return out;
  }

 private:
  std::map<std::pair<int, int>, int> direct_, fabric_;
  int fabrics_ = 0;
};

class Merger {
 public:
  Merger(Machine& base, const Machine& other) : base_(base), other_(other) {}
  void run();

 private:
  /// Of two devices of `other_` that both have a partner in base_: what a contradiction is about.
  struct Device {
    int slot = 0, partner = 0;  ///< in other_.tree and base_.tree
    int gpu = -1;               ///< index into base_.gpus, -1 for a NIC
    int other_gpu = -1;
    std::string name;
  };
  void match_gpus();
  void match_nics();
  void report(const std::vector<std::string>& list);
  void models();
  void cables();
  void nearness();
  void processors();
  std::optional<Nearness> said(const Device& a, const Device& b) const;
  const std::string& bus(const Machine& m, int slot) const {
    return m.tree[static_cast<std::size_t>(slot)].bus;
  }

  Machine& base_;
  const Machine& other_;
  std::vector<Device> devices_;
  std::vector<int> gpu_of_;  ///< by GPU of other_: index into base_.gpus, -1 = none
};

void Merger::report(const std::vector<std::string>& list) {
  for (std::size_t i = 0; i < std::min(list.size(), kMostNamed); ++i) base_.notes.push_back(list[i]);
  if (list.size() > kMostNamed)
    base_.notes.push_back(fmt::format("and {} more contradictions of this kind", list.size() - kMostNamed));
}

/// By bus where both know it, else as nvidia-smi counts.
void Merger::match_gpus() {
  std::vector<std::string> lost;
  for (std::size_t i = 0; i < other_.gpus.size(); ++i) {
    const Machine::Gpu& gpu = other_.gpus[i];
    const std::string& where = bus(other_, gpu.slot);
    int found = -1;
    for (std::size_t j = 0; j < base_.gpus.size(); ++j) {
      const std::string& there = bus(base_, base_.gpus[j].slot);
      const bool both = !where.empty() && !there.empty();
      if (both ? where == there : gpu.number == base_.gpus[j].number) found = static_cast<int>(j);
    }
    gpu_of_.push_back(found);
    if (found >= 0) {
      devices_.push_back({gpu.slot, base_.gpus[static_cast<std::size_t>(found)].slot, found,
                          static_cast<int>(i),
                          fmt::format("GPU{}", base_.gpus[static_cast<std::size_t>(found)].number)});
    } else {
      lost.push_back(fmt::format("GPU{}", gpu.number));
    }
  }
  if (other_.gpus.size() != base_.gpus.size() || !lost.empty()) {
    base_.notes.push_back(fmt::format(
        "{} shows {} GPUs, {} shows {}{}: {} is believed", base_.source, base_.gpus.size(), other_.source,
        other_.gpus.size(), lost.empty() ? "" : fmt::format(" (without a partner: {})", list_some(lost)),
        base_.source));
  }
}

/// By bus, else by name; a speed that only the other source knows is taken over.
void Merger::match_nics() {
  std::vector<std::string> lost;
  std::vector<char> taken(base_.nics.size(), 0);
  const auto names = [](const Machine::Nic& nic) {
    return nic.names.empty() ? std::vector<std::string>{nic.label} : nic.names;
  };
  for (const Machine::Nic& nic : other_.nics) {
    const std::string& where = bus(other_, nic.slot);
    const auto own = names(nic);
    bool found = false;
    for (std::size_t j = 0; j < base_.nics.size() && !found; ++j) {
      Machine::Nic& partner = base_.nics[j];
      const std::string& there = bus(base_, partner.slot);
      const auto theirs = names(partner);
      const bool named = std::any_of(own.begin(), own.end(), [&](const std::string& n) {
        return std::find(theirs.begin(), theirs.end(), n) != theirs.end();
      });
      found = named || (!where.empty() && where == there);
      if (!found) continue;
      taken[j] = 1;
      if (partner.megabits <= 0) partner.megabits = nic.megabits;
      if (partner.label == there) partner.label = nic.label;
      devices_.push_back({nic.slot, partner.slot, -1, -1, nic.label});
    }
    if (!found) lost.push_back(nic.label);
  }
  const auto unseen = std::count(taken.begin(), taken.end(), 0);
  if (!lost.empty() && unseen > 0) {
    base_.notes.push_back(
        fmt::format("the NICs of {} and {} go by different names or are not the same: {} is believed",
                    base_.source, other_.source, base_.source));
  } else if (!lost.empty()) {
    base_.notes.push_back(fmt::format("{} names {}, which {} does not: left out", other_.source,
                                      list_some(lost), base_.source));
  }
}

void Merger::models() {
  std::vector<std::string> list;
  for (const Device& device : devices_) {
    if (device.gpu < 0) continue;
    Machine::Gpu& own = base_.gpus[static_cast<std::size_t>(device.gpu)];
    const Machine::Gpu& theirs = other_.gpus[static_cast<std::size_t>(device.other_gpu)];
    if (!own.pci_id.empty() && !theirs.pci_id.empty() && own.pci_id != theirs.pci_id) {
      list.push_back(fmt::format("{} says that {} is PCI device {}, {} says {}: {} is believed",
                                 other_.source, device.name, theirs.pci_id, base_.source, own.pci_id,
                                 base_.source));
    }
    if (own.pci_id.empty()) own.pci_id = theirs.pci_id;
    if (own.model.empty()) own.model = theirs.model;
    if (own.sm == 0 && own.gcn.empty()) own.sm = theirs.sm, own.gcn = theirs.gcn;
    if (own.gpudirect < 0) own.gpudirect = theirs.gpudirect;
    if (own.c2c <= 0) own.c2c = theirs.c2c;
  }
  report(list);
}

void Merger::cables() {
  if (!other_.knows_cables) return;
  if (!base_.knows_cables) {
    for (Machine::Cable cable : other_.cables) {
      const int gpu = gpu_of_[static_cast<std::size_t>(cable.a)];
      const int end =
          cable.to == Machine::Cable::To::gpu ? gpu_of_[static_cast<std::size_t>(cable.b)] : cable.b;
      if (gpu < 0 || end < 0) continue;
      cable.a = gpu;
      cable.b = cable.to == Machine::Cable::To::cpu
                    ? base_.tree[static_cast<std::size_t>(base_.gpus[static_cast<std::size_t>(gpu)].slot)].cpu
                    : end;
      if (cable.to == Machine::Cable::To::gpu && cable.a > cable.b) std::swap(cable.a, cable.b);
      base_.cables.push_back(cable);
    }
    base_.xgmi = other_.xgmi;
    base_.knows_cables = true;
    return;
  }
  const CableTable own(base_), theirs(other_);
  std::vector<std::string> list;
  for (const Device& a : devices_) {
    for (const Device& b : devices_) {
      if (a.gpu < 0 || b.gpu < 0 || a.gpu >= b.gpu) continue;
      const int here = own.between(a.gpu, b.gpu), there = theirs.between(a.other_gpu, b.other_gpu);
      if (here == there) continue;
      const auto said = [](int count) { return count > 0 ? fmt::format("NV{}", count) : "no NVLink"; };
      list.push_back(fmt::format("{} says {} between {} and {}, {} {}: {} is believed", other_.source,
                                 said(there), a.name, b.name, base_.source, said(here), base_.source));
    }
  }
  report(list);
}

/// What the other source says of a pair; nothing where cables hide it. Host bridges are not told apart.
std::optional<Nearness> Merger::said(const Device& a, const Device& b) const {
  Nearness out = Nearness::phb;
  if (other_.inferred_tree) {
    const auto at = other_.said.find(std::minmax(a.slot, b.slot));
    if (at == other_.said.end()) return std::nullopt;
    out = at->second;
  } else {
    out = other_.nearness(a.slot, b.slot);
  }
  return out == Nearness::node ? Nearness::phb : out;
}

void Merger::nearness() {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    for (std::size_t j = i + 1; j < devices_.size(); ++j) {
      const auto there = said(devices_[i], devices_[j]);
      const Nearness here = base_.nearness(devices_[i].partner, devices_[j].partner);
      if (base_.inferred_tree && base_.said.count(std::minmax(devices_[i].partner, devices_[j].partner)) == 0)
        continue;
      if (!there || *there == here) continue;
      list.push_back(fmt::format("{} says {} between {} and {}, {} {}: {} is believed", other_.source,
                                 name(*there), devices_[i].name, devices_[j].name, base_.source, name(here),
                                 base_.source));
    }
  }
  report(list);
}

/// CPUs are the same where the same GPUs hang on them, else where they have the same number.
void Merger::processors() {
  // A matrix without affinities, its distances hidden by NVLink, knows nothing of NUMA nodes.
  const bool vague =
      other_.inferred_tree && std::all_of(other_.cpus.begin(), other_.cpus.end(),
                                          [](const Machine::Cpu& c) { return c.threads == 0; });
  if (!vague && other_.cpus.size() != base_.cpus.size()) {
    base_.notes.push_back(fmt::format("{} shows {} NUMA nodes, {} shows {}: {} is believed", base_.source,
                                      base_.cpus.size(), other_.source, other_.cpus.size(), base_.source));
  }
  for (std::size_t i = 0; i < base_.cpus.size(); ++i) {
    Machine::Cpu& own = base_.cpus[i];
    int found = -1;
    for (std::size_t j = 0; j < other_.cpus.size(); ++j) {
      if (other_.cpus[j].numa == own.numa) found = static_cast<int>(j);
    }
    for (const Device& device : devices_) {
      if (base_.tree[static_cast<std::size_t>(device.partner)].cpu == static_cast<int>(i))
        found = other_.tree[static_cast<std::size_t>(device.slot)].cpu;
    }
    if (found < 0) continue;
    const Machine::Cpu& theirs = other_.cpus[static_cast<std::size_t>(found)];
    if (own.arch.empty()) own.arch = theirs.arch;
    if (own.description.empty()) own.description = theirs.description;
    if (own.vendor.empty() || own.family < 0)
      own.vendor = theirs.vendor, own.family = theirs.family, own.model = theirs.model;
    const bool better = own.cores == 0 || (theirs.counted && !own.counted);
    if (better && theirs.cores > 0)
      own.cores = theirs.cores, own.threads = theirs.threads, own.counted = theirs.counted;
  }
}

void Merger::run() {
  match_gpus();
  match_nics();
  models();
  cables();
  nearness();
  processors();
}

}  // namespace

Machine merge(std::vector<Machine> sources) {
  // Two of one kind are told apart by their files.
  std::map<std::string, int> kinds;
  for (const Machine& each : sources) ++kinds[each.source];
  for (Machine& each : sources) {
    if (kinds.at(each.source) > 1)
      each.source += " " + each.file.substr(each.file.rfind('/') + 1);  // npos + 1 is 0
  }
  Machine out = std::move(sources.front());
  std::string joined = out.source, files = out.file;
  for (std::size_t i = 1; i < sources.size(); ++i) {
    Merger(out, sources[i]).run();
    joined += " + " + sources[i].source;
    files += " + " + sources[i].file;
  }
  out.source = joined;
  out.file = files;
  return out;
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace tandem::topologies {

std::string_view name(Nearness nearness) {
  switch (nearness) {
    case Nearness::pix:
      return "PIX";
    case Nearness::pxb:
      return "PXB";
    case Nearness::phb:
      return "PHB";
    case Nearness::node:
      return "NODE";
    case Nearness::sys:
      return "SYS";
  }
  return "";
}

PcieLink slower(const PcieLink& a, const PcieLink& b) {
  // Half-known links bind by what is known: x16 and generation 3 stand for the unknown half, as in NCCL.
  const auto rate = [](const PcieLink& link) {
    return (link.gigatransfers > 0 ? link.gigatransfers : 8) * (link.lanes > 0 ? link.lanes : 16);
  };
  const bool a_known = a.gigatransfers > 0 || a.lanes > 0, b_known = b.gigatransfers > 0 || b.lanes > 0;
  if (!a_known || !b_known) return a_known ? a : b;
  return rate(a) <= rate(b) ? a : b;
}

std::pair<int, int> count_processors(const std::vector<int>& ranges) {
  int threads = 0;
  for (const int size : ranges) threads = std::min(1'000'000, threads + size);
  const bool pairs = ranges.size() == 2 && ranges[0] == ranges[1] && ranges[0] > 1;
  return {threads, pairs ? threads / 2 : threads};
}

std::string list_some(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  return names.size() == 1 ? names[0] : fmt::format("{} and {} more", names[0], names.size() - 1);
}

std::string few_cores(int cores, int gpus) {
  return fmt::format(
      "{} core{} for {} GPUs: the dump was taken in a container or under a cgroup; say how many the machine "
      "has with --set host.cores=N",
      cores, cores == 1 ? "" : "s", gpus);
}

Nearness Machine::nearness(int slot_a, int slot_b) const {
  const auto at = [&](int i) -> const Slot& { return tree[static_cast<std::size_t>(i)]; };
  if (at(slot_a).cpu != at(slot_b).cpu) return Nearness::sys;
  std::vector<int> above;
  for (int up = at(slot_a).parent; up >= 0; up = at(up).parent) above.push_back(up);
  int bridges = 1;
  for (int up = at(slot_b).parent; up >= 0; up = at(up).parent, ++bridges) {
    const auto meets = std::find(above.begin(), above.end(), up);
    if (meets == above.end()) continue;
    return bridges == 1 && meets == above.begin() ? Nearness::pix : Nearness::pxb;
  }
  return Nearness::phb;
}

namespace {

/// GT/s times lanes, 0 where nothing is known; half-known ones as slower() takes them.
double link_rate(const PcieLink& link) {
  if (link.gigatransfers <= 0 && link.lanes <= 0) return 0;
  return (link.gigatransfers > 0 ? link.gigatransfers : 8) * (link.lanes > 0 ? link.lanes : 16);
}

constexpr double kNoWire = 4;      // times slower than all below: more than a switch's narrow uplink
constexpr double kAsleep = 2.5;    // GT/s: what idle cards fall back to
constexpr int kLeastLanes = 4;     // of a card in a slot that sleeps
constexpr double kOneLane = 16.1;  // GT/s: x1 of generation 4, x2 of generation 3

}  // namespace

void Machine::doubt_links() {
  std::vector<std::string> nics_doubted, bridges_doubted, asleep;
  for (const Gpu& gpu : gpus) {
    const PcieLink link = tree[static_cast<std::size_t>(gpu.slot)].link;
    if (link.gigatransfers != kAsleep || link.lanes < kLeastLanes) continue;
    asleep.push_back(fmt::format("the GPU at {}", tree[static_cast<std::size_t>(gpu.slot)].bus));
    // The port above it tells of the same wire.
    for (int i = gpu.slot; i >= 0; i = tree[static_cast<std::size_t>(i)].parent) {
      PcieLink& own = tree[static_cast<std::size_t>(i)].link;
      if (own.gigatransfers != kAsleep || own.lanes != link.lanes) break;
      own.gigatransfers = 0;
    }
  }
  if (!asleep.empty())
    notes.push_back(fmt::format(
        "{}: its link is at 2.5 GT/s, as of a card asleep; its own generation is taken", list_some(asleep)));
  for (const Nic& nic : nics) {
    Slot& slot = tree[static_cast<std::size_t>(nic.slot)];
    const double rate = link_rate(slot.link);
    if (rate <= 0 || rate > kOneLane || nic.megabits < kNoWire * rate * 1000) continue;
    slot.link = {};
    nics_doubted.push_back(nic.label);
  }
  std::vector<double> slowest(tree.size(), 0), fastest(tree.size(), 0);
  std::vector<PcieLink> best(tree.size());
  for (std::size_t i = tree.size(); i-- > 0;) {  // children come after their parents
    const Slot& slot = tree[i];
    if (slot.kind != Slot::Kind::bridge) {
      slowest[i] = fastest[i] = link_rate(slot.link);
      best[i] = slot.link;
    }
    if (slot.parent < 0 || slowest[i] <= 0) continue;
    const auto up = static_cast<std::size_t>(slot.parent);
    slowest[up] = slowest[up] > 0 ? std::min(slowest[up], slowest[i]) : slowest[i];
    if (fastest[i] > fastest[up]) fastest[up] = fastest[i], best[up] = best[i];
  }
  for (std::size_t i = 0; i < tree.size(); ++i) {
    Slot& slot = tree[i];
    const double rate = link_rate(slot.link);
    if (slot.kind != Slot::Kind::bridge || rate <= 0) continue;
    // Where no device below knows its link, one lane is still less than any of them would sit on.
    const bool doubted = slowest[i] > 0 ? kNoWire * rate <= 1.01 * slowest[i] : rate <= kOneLane;
    if (!doubted) continue;
    slot.link = best[i];
    bridges_doubted.push_back(slot.bus.empty() ? "a bridge" : slot.bus);
  }
  if (!bridges_doubted.empty())
    notes.push_back(fmt::format(
        "{}: the bridge reports a link more than {:.0f} times slower than every device below it, as in "
        "a virtual machine: that is no wire, the devices' own rate is taken",
        list_some(bridges_doubted), kNoWire));
  if (!nics_doubted.empty())
    notes.push_back(fmt::format(
        "{}: one slow lane is reported for a NIC many times as fast, as in a virtual machine: the link "
        "is taken for an unknown one",
        list_some(nics_doubted)));
}

void Machine::collapse() {
  doubt_links();
  std::vector<int> below(tree.size(), 0);
  std::vector<char> kept(tree.size(), 0);
  // Children come after their parents, so one pass from the back sees what is left below each.
  for (std::size_t i = tree.size(); i-- > 0;) {
    kept[i] = tree[i].kind != Slot::Kind::bridge || below[i] > 1 ? 1 : 0;
    if (tree[i].parent >= 0)
      below[static_cast<std::size_t>(tree[i].parent)] += kept[i] != 0 || below[i] > 0 ? 1 : 0;
  }
  std::vector<int> now(tree.size(), -1);
  std::vector<Slot> out;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (kept[i] == 0) continue;
    Slot slot = tree[i];
    while (slot.parent >= 0 && kept[static_cast<std::size_t>(slot.parent)] == 0) {
      const Slot& gone = tree[static_cast<std::size_t>(slot.parent)];
      slot.link = slower(slot.link, gone.link);
      slot.parent = gone.parent;
    }
    if (slot.parent >= 0) slot.parent = now[static_cast<std::size_t>(slot.parent)];
    now[i] = static_cast<int>(out.size());
    out.push_back(std::move(slot));
  }
  for (Gpu& gpu : gpus) gpu.slot = now[static_cast<std::size_t>(gpu.slot)];
  for (Nic& nic : nics) nic.slot = now[static_cast<std::size_t>(nic.slot)];
  tree = std::move(out);
}

void Machine::number_gpus() {
  std::set<int> numbers;
  for (const Gpu& gpu : gpus) numbers.insert(gpu.number);
  const bool counted = numbers.size() == gpus.size() && (gpus.empty() || *numbers.begin() >= 0);
  std::vector<int> order(gpus.size());
  std::iota(order.begin(), order.end(), 0);
  const auto gpu = [&](int i) -> const Gpu& { return gpus[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return counted ? gpu(a).number < gpu(b).number
                   : tree[static_cast<std::size_t>(gpu(a).slot)].bus <
                         tree[static_cast<std::size_t>(gpu(b).slot)].bus;
  });
  std::vector<Gpu> sorted;
  std::vector<int> now(gpus.size());
  for (const int i : order) {
    now[static_cast<std::size_t>(i)] = static_cast<int>(sorted.size());
    sorted.push_back(gpu(i));
    if (!counted) sorted.back().number = static_cast<int>(sorted.size()) - 1;
  }
  gpus = std::move(sorted);
  for (Cable& cable : cables) {
    cable.a = now[static_cast<std::size_t>(cable.a)];
    if (cable.to != Cable::To::gpu) continue;
    cable.b = now[static_cast<std::size_t>(cable.b)];
    if (cable.a > cable.b) std::swap(cable.a, cable.b);
  }
  std::sort(cables.begin(), cables.end(), [](const Cable& x, const Cable& y) {
    return std::tie(x.to, x.a, x.b) < std::tie(y.to, y.a, y.b);
  });
}

int Machine::number_cpus() {
  std::set<int> taken;
  int changed = 0;
  std::vector<Cpu*> open;
  for (Cpu& cpu : cpus) {
    if (cpu.numa < 0 || !taken.insert(cpu.numa).second) open.push_back(&cpu);
  }
  int id = 0;
  for (Cpu* cpu : open) {
    while (!taken.insert(id).second) ++id;
    cpu->numa = id;
    ++changed;
  }
  return changed;
}

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/cards.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/data.h"
#include "topologies/import/hardware.h"
#include "topologies/import/importer.h"

namespace tandem::topologies {

namespace {

constexpr int kMostCards = 8, kOnOneSocket = 4;

/// The card that a name means: "rtx-4080", "4080", "a6000".
std::optional<Device> card(const std::string& word) {
  const auto names = list_data("topologies/devices");
  for (const char* family : {"", "rtx-", "gtx-", "rtx-a"}) {
    const std::string name = spelled_as(family + word, names);
    if (!std::binary_search(names.begin(), names.end(), name)) continue;
    Device device = Device::load(name);
    if (device.kind == Device::Kind::gpu && is_card(device)) return device;
  }
  return std::nullopt;
}

Machine box(const Device& device, int count) {
  const int sockets = count > kOnOneSocket ? 2 : 1;
  const bool desktop = count <= 2 && !offers_peer_access(device);
  Machine m;
  m.source = "stock figures";
  m.knows_cables = true;
  for (int i = 0; i < sockets; ++i) m.cpus.push_back({.numa = i, .arch = "x86_64"});
  for (int i = 0; i < count; ++i) {
    m.gpus.push_back({.slot = i, .number = i});
    m.tree.push_back({.kind = Machine::Slot::Kind::gpu,
                      .cpu = i * sockets / count,
                      .link = {0, desktop && count == 2 ? 8 : 0}});
  }
  m.nics.push_back({.slot = count, .label = "eth0", .megabits = 10'000});
  m.tree.push_back({.kind = Machine::Slot::Kind::nic});
  return m;
}

}  // namespace

std::optional<Json> system_of_cards(const std::string& name) {
  const auto dash = name.rfind('-');
  if (dash == std::string::npos || name.size() != dash + 3 || name[dash + 2] != 'x') return std::nullopt;
  const int count = name[dash + 1] - '0';
  if (count < 1 || count > kMostCards) return std::nullopt;
  std::string word = name.substr(0, dash);
  if (word.ends_with("-pcie") && !card(word)) word.resize(word.size() - 5);
  const auto device = card(word);
  if (!device) return std::nullopt;
  const bool desktop = count <= 2 && !offers_peer_access(*device);
  ImportChoices choices;
  choices.name = fmt::format("{}-{}x", device->name, count);
  choices.device = device->name;
  const double generation = pcie_generation(*device);
  choices.cpu = desktop ? "generic-cpu" : generation > 16 ? "epyc-9554" : "epyc-7742";
  std::vector<std::string> notes;
  Json out = Json::parse(system_text(box(*device, count), choices, notes), name);
  const Place place = out.place();
  out.set("summary",
          Json::make_text(
              fmt::format("{}: {}x {} on PCIe {}.0{}; stock figures by generation, not measured",
                          desktop ? "desktop" : "server", count, device->name, pcie_number(generation),
                          desktop && count == 2 ? ", half the lanes each" : ""),
              place));
  out.set("sources",
          Json::parse("[\"stock figures by generation, as of an imported machine "
                      "(topologies/import/hardware.json); tandem import reads a machine of your own\"]",
                      name));
  out.set("unverified", Json::parse("[\"devices.cpu\", \"network\", \"host\"]", name));
  return out;
}

}  // namespace tandem::topologies

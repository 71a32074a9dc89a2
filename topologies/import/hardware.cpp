// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/data.h"

namespace tandem::topologies {

namespace {

const Json& table() {
  static const Json all = Json::load(find_data("topologies/import", "table", "hardware"));
  return all;
}

std::string looked_up(std::string_view section, const std::string& key) {
  const Json* found = table().at(section).find(key);
  return found != nullptr && found->is_text() ? found->as_text() : "";
}

/// Lower-case letters and digits alone.
std::string bare(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

void drop(std::string& text, std::string_view word) {
  if (const auto at = text.find(word); at != std::string::npos) text.erase(at, word.size());
}

/// "NVIDIA A100-SXM4-80GB" -> "a100sxm80gb": without makers and generations of sockets.
std::string bare_model(std::string_view text) {
  std::string out = bare(text);
  for (const char* word : {"nvidia", "amd", "tesla", "geforce", "instinct"}) drop(out, word);
  const auto socket = out.find("sxm");
  if (socket != std::string::npos && socket + 3 < out.size() && out[socket + 3] >= '2' &&
      out[socket + 3] <= '6')
    out.erase(socket + 3, 1);
  return out;
}

const std::vector<std::string>& device_names() {
  static const std::vector<std::string> all = list_data("topologies/devices");
  return all;
}

std::string by_name(const std::string& marketing) {
  const std::string model = bare_model(marketing);
  if (model.empty()) return "";
  if (std::string alias = looked_up("names", model); !alias.empty()) return alias;
  std::string best, longer;
  std::size_t length = 0;
  int longer_count = 0;
  for (const std::string& device : device_names()) {
    const std::string name = bare_model(device);
    // "h200nvl" is no "h20", nor is "rtx4090laptopgpu" an "rtx4090".
    const auto digit = [&](std::size_t i) {
      return i < model.size() && std::isdigit(static_cast<unsigned char>(model[i])) != 0;
    };
    const bool cut = digit(name.size() - 1) && digit(name.size());
    const bool laptop = model.find("laptop") != std::string::npos && name.find("laptop") == std::string::npos;
    if (model.starts_with(name) && !cut && !laptop && name.size() > length)
      best = device, length = name.size();
    if (name.starts_with(model)) longer = device, ++longer_count;
  }
  return longer_count == 1 && length < model.size() ? longer : best;
}

LinkFigures figures(const Json& entry, std::string_view rate) {
  return {entry.at(rate).as_bandwidth(), entry.real("achieved", 1, 1e-6, 1),
          entry.find("latency") != nullptr ? entry.at("latency").as_time() : parse_time("0.3us"),
          static_cast<int>(entry.integer("lanes", 1, 1, 1024))};
}

const Json& architecture(const Device& gpu) {
  const Json& all = table().at("architectures");
  const Json* found = all.find(gpu.architecture);
  return found != nullptr ? *found : all.at("generic");
}

bool lists(const Json& names, const std::string& name) {
  return std::any_of(names.items().begin(), names.items().end(),
                     [&](const Json& each) { return each.as_text() == name; });
}

}  // namespace

std::string gpu_model(const Machine::Gpu& gpu, Joined joined, bool& sure) {
  sure = true;
  if (std::string model = looked_up("pci", gpu.pci_id); !model.empty()) return model;
  if (std::string model = by_name(gpu.model); !model.empty()) return model;
  sure = false;
  if (!gpu.gcn.empty()) return looked_up("gcn", gpu.gcn.starts_with("gfx") ? gpu.gcn.substr(3) : gpu.gcn);
  const Json* family = table().at("sm").find(std::to_string(gpu.sm));
  if (family == nullptr) return "";
  const std::string cards = family->text("cards", "");
  const std::string cables = family->text("cables", cards);
  return joined == Joined::fabric   ? family->text("switch", cables)
         : joined == Joined::cables ? cables
                                    : cards;
}

std::string cpu_model(const Machine::Cpu& cpu, bool& sure) {
  const std::string text = bare(cpu.description);
  sure = true;
  for (const std::string& device : device_names()) {
    std::string name = bare(device);
    drop(name, "xeon");
    if (device.find_first_of("0123456789") != std::string::npos && text.find(name) != std::string::npos &&
        (device.starts_with("xeon") || device.starts_with("epyc") || device.starts_with("core")))
      return device;
  }
  sure = false;
  if (cpu.arch.starts_with("arm") || cpu.arch == "aarch64") return "grace";
  std::string best;
  int from = -1;
  for (const Json& entry : table().at("cpus").items()) {
    const auto least = static_cast<int>(entry.at("from").as_int());
    if (entry.at("vendor").as_text() != cpu.vendor || entry.at("family").as_int() != cpu.family) continue;
    if (least <= cpu.model && least > from) best = entry.at("model").as_text(), from = least;
  }
  return best;
}

double pcie_generation(const Device& gpu) { return architecture(gpu).real("pcie", 16); }

const PcieFigures& pcie_figures(double gigatransfers) {
  static const std::vector<PcieFigures> all = [] {
    std::vector<PcieFigures> out;
    for (const Json& entry : table().at("pcie").items()) {
      out.push_back({entry.at("gigatransfers").as_real(), figures(entry, "lane"),
                     entry.at("staged").as_bandwidth(), entry.at("through_host").as_bandwidth()});
    }
    return out;
  }();
  return *std::min_element(all.begin(), all.end(), [&](const PcieFigures& a, const PcieFigures& b) {
    return std::abs(a.gigatransfers - gigatransfers) < std::abs(b.gigatransfers - gigatransfers);
  });
}

int pcie_number(double gigatransfers) {
  return 1 + static_cast<int>(std::lround(std::log2(pcie_figures(gigatransfers).gigatransfers / 2.5)));
}

PcieLink pcie_link(double gigabytes_per_second) {
  if (!(gigabytes_per_second > 0)) return {};
  PcieLink best;
  double least = 1e300;
  for (const int lanes : {16, 8, 4, 2, 1}) {  // of two readings of one rate the wider, slower one
    for (const double rate : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) {
      const double off =
          std::abs(pcie_figures(rate).lane.bandwidth.bytes_per_second * lanes / 1e9 - gigabytes_per_second);
      if (off < least - 1e-3 * gigabytes_per_second) best = {rate, lanes}, least = off;
    }
  }
  return best;
}

bool has_cables(const Device& gpu) { return architecture(gpu).find("cable") != nullptr; }

LinkFigures cable_figures(const Device& gpu) {
  const Json& slow = table().at("slow_cables");
  if (lists(slow.at("models"), gpu.name)) return figures(slow, "cable");
  const Json& entry = architecture(gpu);
  return figures(entry.find("cable") != nullptr ? entry : table().at("architectures").at("generic"), "cable");
}

int bridge_cables(const std::string& model) {
  return static_cast<int>(table().at("bridges").integer(model, 0, 1, 64));
}

std::vector<std::string> bridged_models() { return table().at("bridges").keys(); }

double cable_rate(const std::string& pci_id) {
  const std::string model = looked_up("pci", pci_id);
  return model.empty() ? 25 : cable_figures(Device::load(model)).bandwidth.bytes_per_second / 1e9;
}

LinkFigures socket_figures(const Device& cpu) {
  const Json& all = table().at("sockets");
  const Json* found = all.find(cpu.architecture);
  return figures(found != nullptr ? *found : all.at("generic"), "bandwidth");
}

LinkFigures c2c_figures(const Device& gpu) {
  const Json& c2c = table().at("c2c");
  return lists(c2c.at("models"), gpu.name) ? figures(c2c, "bandwidth") : LinkFigures{};
}

bool offers_peer_access(const Device& gpu) { return !lists(table().at("no_peer_access"), gpu.name); }

bool is_card(const Device& gpu) { return !lists(table().at("modules").at("models"), gpu.name); }

int card_lanes(const Device& gpu) { return lists(table().at("half_width").at("models"), gpu.name) ? 8 : 16; }

std::string rate_text(double bytes_per_second) { return fmt::format("{:.6g}GB/s", bytes_per_second / 1e9); }

std::string figures_source(const std::string& section) {
  const Json* text = table().find(section + "_source");
  return text != nullptr ? text->as_text() : table().at(section).text("source", "");
}

}  // namespace tandem::topologies

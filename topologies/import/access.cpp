// SPDX-License-Identifier: Apache-2.0
// Peer access by the library's rules, and the network beyond the NICs.
#include "topologies/import/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "topologies/import/hardware.h"
#include "topologies/import/vertex_names.h"

namespace tandem::topologies {

namespace {

/// Standard deviation of log(all that NCCL moves through the host's memory) over eight hosts of cards without
/// peer access on PCIe 4.0 (calibration/data/collectives/staged.csv): 13, 17, 17, 21, 43, 80, 232, 253 GB/s.
constexpr double kHostsDiffer = 1.2;

/// "nccl-2.28" -> {2, 28}; {0, 0} for other libraries.
std::pair<int, int> library_version(const std::string& library) {
  int major = 0, minor = 0;
  if (std::sscanf(library.c_str(), "nccl-%d.%d", &major, &minor) < 1) return {0, 0};
  return {major, minor};
}

/// NCCL's default for peer access, by version and processor (ncclTopoCheckP2p and its history): from 2.23
/// through switches alone, but anywhere between at most two GPUs on AMD; from 2.12 anywhere on AMD and POWER;
/// before, also through the host bridge of Intel's Skylake and later. RCCL: below one root complex.
std::string reach(const Machine& m, const std::vector<Device>& gpus, const std::vector<Device>& cpus,
                  const std::string& library) {
  if (gpus.empty()) return "system";
  if (made_by_amd(gpus)) return "host_bridge";
  if (!std::all_of(gpus.begin(), gpus.end(), offers_peer_access)) return "none";
  const auto version = library_version(library);
  const std::string& arch = cpus[0].architecture;
  const bool amd = cpus[0].vendor == "AMD", power = m.cpus[0].arch.starts_with("ppc");
  if (version >= std::pair(2, 23) || version == std::pair(0, 0))
    return amd && gpus.size() <= 2 ? "system" : "switch";
  if (amd || power) return "system";
  const bool late_intel = arch == "skylake" || arch == "cascadelake" || arch == "sapphirerapids";
  return version < std::pair(2, 12) && late_intel ? "host_bridge" : "switch";
}

}  // namespace

bool made_by_amd(const std::vector<Device>& gpus) { return !gpus.empty() && gpus[0].vendor == "AMD"; }

JsonWriter peer_access(const Machine& m, const std::vector<Device>& gpus, const std::vector<Device>& cpus,
                       const std::string& library, PcieLink usual) {
  const std::string allowed = reach(m, gpus, cpus, library);
  const PcieFigures& figures = pcie_figures(usual.gigatransfers);
  const double width = usual.lanes / 16.0;
  JsonWriter out = {{"reach", allowed}};
  if (allowed == "host_bridge" || allowed == "system")
    out["through_host_cap"] = rate_text(figures.through_host.bytes_per_second * width);
  out["staged_cap"] = rate_text(figures.staged.bytes_per_second * width);
  out["staged_latency"] = "1us";
  if (allowed == "none") out["staged_spread"] = kHostsDiffer;
  // Memory that is coherent with the GPUs is reached by way of them (Grace).
  if (!gpus.empty() && c2c_figures(gpus[0]).bandwidth.bytes_per_second > 0) out["through_gpus"] = true;
  out["source"] = allowed == "none"
                      ? figures_source("no_peer_access")
                      : fmt::format(
                            "default of {} on these processors; staged copies per 16 lanes, V100 "
                            "PCIe pair, scaled",
                            library);
  return out;
}

JsonWriter network(const Machine& m, const std::vector<Device>& gpus, const ImportChoices& choices,
                   std::vector<std::string>& notes) {
  double best = 0;
  for (const Machine::Nic& nic : m.nics)
    best = std::max(best, nic.megabits > 0 ? nic.megabits * 1e6 / 8 : choices.nic.bytes_per_second);
  if (m.nics.empty()) return nullptr;
  if (best <= 0) {
    notes.push_back(
        "the dump does not say how fast the NICs are, so the system is one node; --nic 100Gbit/s lets it "
        "scale out");
    return nullptr;
  }
  std::vector<int> ports;
  std::vector<std::string> slower;
  for (std::size_t i = 0; i < m.nics.size(); ++i) {
    const double own = m.nics[i].megabits > 0 ? m.nics[i].megabits * 1e6 / 8 : choices.nic.bytes_per_second;
    if (own >= best * 0.999) {
      ports.push_back(static_cast<int>(i));
    } else {
      slower.push_back(m.nics[i].label);
    }
  }
  if (!slower.empty())
    notes.push_back(
        fmt::format("{} is slower than the fastest NIC and not plugged into the network", list_some(slower)));
  const std::string& label = m.nics[static_cast<std::size_t>(ports[0])].label;
  const bool kernel = label.starts_with("e") || label.starts_with("veth") || label.starts_with("ib");
  bool direct = !gpus.empty() && offers_peer_access(gpus[0]) && !kernel;
  for (const Machine::Gpu& gpu : m.gpus) direct = direct && gpu.gpudirect != 0;
  JsonWriter transport =
      kernel
          ? JsonWriter{{"name", "tcp"},
                       {"latency", "25us"},
                       {"gpudirect", "none"},
                       {"source", "kernel TCP, 20 to 50 us recalled"}}
          : JsonWriter{{"name", "rdma"},
                       {"latency", "2us"},
                       {"gpudirect", !direct             ? "none"
                                     : made_by_amd(gpus) ? "host_bridge"
                                                         : "switch"},
                       {"source", "port 0.5 us (EDR), the rest is verbs and the PCIe round trip, recalled"}};
  return {
      {"block", "single"},
      {"bandwidth", fmt::format("{:.6g}Gbit/s", best * 8 / 1e9)},
      {"achieved", 0.92},
      {"latency", "0.6us"},
      {"attach", range_of("nic", ports)},
      {"transport", transport},
      {"source",
       fmt::format("rate of a NIC by {}; 0.92: 11.5 of 12.5 GB/s per port seen on a DGX-1 pair; one switch "
                   "assumed",
                   m.source)}};
}

}  // namespace tandem::topologies

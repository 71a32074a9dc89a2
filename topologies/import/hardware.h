// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is known of hardware that a dump only hints at (topologies/import/hardware.json): which model a PCI id
// or a compute capability stands for, and the stock figures of its links.
#include <string>
#include <vector>

#include "base/units.h"
#include "topologies/devices/device.h"
#include "topologies/import/machine.h"

namespace tandem::topologies {

/// One kind of link: of one lane or cable, one direction.
struct LinkFigures {
  Bandwidth bandwidth;
  double achieved = 1;
  Time latency;
  int lanes = 1;
};

/// Of 16 lanes of one generation.
struct PcieFigures {
  double gigatransfers = 0;
  LinkFigures lane;
  Bandwidth staged, through_host;  ///< of one flow
};

/// How a GPU is joined to others: tells models of one chip apart.
enum class Joined : uint8_t { cards, cables, fabric };

/// Model of topologies/devices, or "" when nothing known fits. `sure` is set to whether the dump names the
/// model rather than its family.
std::string gpu_model(const Machine::Gpu& gpu, Joined joined, bool& sure);
/// The same of a CPU: by its description, else the nearest of its generation; "" when unknown.
std::string cpu_model(const Machine::Cpu& cpu, bool& sure);

/// GT/s of a lane that GPUs of this architecture have.
double pcie_generation(const Device& gpu);
/// Figures of the generation nearest to a lane rate.
const PcieFigures& pcie_figures(double gigatransfers);
/// "3" for 8 GT/s.
int pcie_number(double gigatransfers);
/// The connection that has a total rate in GB/s: 15.75 is 8 GT/s x16, 7.88 is x8; unknown for 0.
PcieLink pcie_link(double gigabytes_per_second);

/// Whether GPUs of this architecture can have NVLink or xGMI.
bool has_cables(const Device& gpu);
/// One NVLink or xGMI cable of a GPU.
LinkFigures cable_figures(const Device& gpu);
/// NVLink cables of the bridge that joins two cards of this model; 0 where they have no connector for one.
int bridge_cables(const std::string& model);
/// Models with a connector for a bridge.
std::vector<std::string> bridged_models();
/// GB/s of one by PCI id, before a device is chosen.
double cable_rate(const std::string& pci_id);
/// Between two NUMA nodes.
LinkFigures socket_figures(const Device& cpu);
/// A GPU's own way to its CPU besides PCIe; bandwidth 0 where there is none.
LinkFigures c2c_figures(const Device& gpu);
bool offers_peer_access(const Device& gpu);
/// Whether it is one GPU on a PCIe card, and how many lanes that has.
bool is_card(const Device& gpu);
int card_lanes(const Device& gpu);
/// "25GB/s".
std::string rate_text(double bytes_per_second);
/// The "source" text of a section: "pcie", "architectures", "sockets", ...
std::string figures_source(const std::string& section);

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which models of topologies/devices the GPUs and CPUs of a dump are.
#include <string>
#include <vector>

#include "topologies/devices/device.h"
#include "topologies/import/importer.h"

namespace tandem::topologies {

struct Chosen {
  Device device;
  std::string path;           ///< of its file, as the system's file has to call it; empty: one by name
  std::string model() const;  ///< what stands in the system's file
};

/// One per GPU: --device, else what the dump says, else the likeliest of its family, with a note. Throws
/// InputError where nothing tells.
std::vector<Chosen> choose_gpus(const Machine& machine, const ImportChoices& choices,
                                std::vector<std::string>& notes);
/// One per NUMA node: --cpu, else by description or generation, else generic-cpu.
std::vector<Chosen> choose_cpus(const Machine& machine, const ImportChoices& choices,
                                std::vector<std::string>& notes);

}  // namespace tandem::topologies

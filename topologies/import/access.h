// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the devices of an imported machine reach each other beyond plain links, as sections of a system file:
// peer access and the network.
#include <string>
#include <vector>
#include "base/json_writer.h"

#include "topologies/devices/device.h"
#include "topologies/import/importer.h"

namespace tandem::topologies {

bool made_by_amd(const std::vector<Device>& gpus);

/// "peer_access": what `library` ("nccl-2.28") allows on these processors, and stock figures for what is
/// staged or goes through the host, by the GPUs' usual connection. At least one CPU.
JsonWriter peer_access(const Machine& machine, const std::vector<Device>& gpus,
                       const std::vector<Device>& cpus, const std::string& library, PcieLink usual);

/// "network": one switch that the fastest NICs are plugged into; null without a NIC of known speed. What was
/// left out is added to `notes`.
JsonWriter network(const Machine& machine, const std::vector<Device>& gpus, const ImportChoices& choices,
                   std::vector<std::string>& notes);

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which described device a measured machine's own words mean. Pure but for reading topologies/devices; any
// thread may call these.
#include <string>
#include <vector>

#include "topologies/devices/device.h"

namespace tandem::topologies {

/// "H200" or "3090": the first word of a machine's name with three digits; "" without one.
std::string model_number(const std::string& machine);

/// The devices in topologies/devices with the machine's model number as a word of their name that are most
/// like its description ("NVIDIA H100 PCIe, 114 processors, 1.75 GHz"): by the words of their names, their
/// multiprocessors and their clock. Several where it does not tell them apart; none without a model number
/// that is known. `gpu`: look among GPUs, else among all others. Throws InputError where a device's file is
/// malformed.
std::vector<Device> devices_like(const std::string& machine, bool gpu);

}  // namespace tandem::topologies

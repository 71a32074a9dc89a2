// SPDX-License-Identifier: Apache-2.0
#pragma once
// Changes of a system that are more than one figure of its file: a kind of link taken out, NVLink bridges
// put in, other accelerators, a choice of them.
#include <string>
#include <string_view>

#include "base/json.h"

namespace tandem::topologies {

/// How the command line asks for one of System::Sets: "--set nodes=16", "--without nvlink".
std::string set_option(const std::string& name, const std::string& value);

/// Makes the change that `name` asks for, or returns false where `name` is none of these:
///   "without"  "nvlink"      without the links of that kind, and without switches that nothing else reaches
///   "bridges"  "0-1,2-3"     NVLink bridges between cards, by number in the node
///   "device"   "rtx-4090"    all accelerators of that model; PCIe peer access ends where its driver has none
///   "place"    "0,1,4,5"     these accelerators of a node alone, in that order
///   "devices.*.power_limit"  "300W"     of all accelerators, in nodes of every kind
///   "devices.gpu3.power_limit", "devices.gpu[0-3].power_limit"     of these
/// Throws InputError at `place` with what is valid and the nearest name.
bool edit(Json& document, std::string_view name, const std::string& value, const Place& place);

}  // namespace tandem::topologies

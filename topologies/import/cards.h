// SPDX-License-Identifier: Apache-2.0
#pragma once
// Machines that need no file: cards of one model in the slots of a desktop or a server.
#include <optional>
#include <string>

#include "base/json.h"

namespace tandem::topologies {

/// "rtx-4080-4x", "4080-pcie-4x": that many cards (1 to 8) of a device that is a PCIe card, with stock
/// figures by generation as an imported machine has them. Two GeForce cards share the lanes of a desktop's
/// processor, more sit in a server; more than four on two sockets. Nothing where the name is none of these.
std::optional<Json> system_of_cards(const std::string& name);

}  // namespace tandem::topologies

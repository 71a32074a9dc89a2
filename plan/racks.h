// SPDX-License-Identifier: Apache-2.0
#pragma once
// The racks that the nodes of a job must stand in.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"

namespace tandem::plan {

/// Racks of 42 units at hand.
struct Racks {
  int64_t count = 1;
  std::optional<double> watts;           ///< that one may draw; unset: what stands in it
  std::map<std::string, int64_t> units;  ///< of a node by its system, besides those of plan/racks.json

  /// Nodes of the fullest rack when they are spread evenly.
  int64_t in_one(int64_t nodes) const { return (nodes + count - 1) / count; }
};

/// "1440W", "40kW", "1MW": watts, at least 1. Throws InputError at `place`.
double parse_draw(const std::string& text, const Place& place);
/// "4", "4:40kW". Throws InputError at `place`.
Racks parse_racks(const std::string& text, const Place& place);
/// "NAME=UNITS[,...]". Throws InputError at `place`.
std::map<std::string, int64_t> parse_rack_units(const std::string& text, const Place& place);
/// The most nodes that the racks hold. Throws InputError if the height of a node of the system is not known.
int64_t most_nodes(const Racks& racks, const std::string& system);
/// Throws InputError as most_nodes(), and if the nodes do not fit into the racks.
void check_racks(const Racks& racks, const std::string& system, int64_t nodes);

}  // namespace tandem::plan

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What joins the nodes. A block computes routes and link ids; it tabulates nothing, so its memory does not
// grow with the number of nodes. A new block is one file in topologies/blocks and one word in the list.
// Internal to topologies.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/registry.h"
#include "base/units.h"

namespace tandem::topologies {

/// The figures that every block shares. A port is where a node's NIC (or a TPU's own router) plugs in.
struct NetworkShape {
  int64_t nodes = 1;
  uint32_t ports = 1;   ///< of each node
  Bandwidth bandwidth;  ///< of one port's cable, one direction
  double achieved = 1;
  Time latency;         ///< of each link crossed, switch included
  uint32_t bonded = 1;  ///< cables that are one port: what a file says of ports is of this many times as many
};

/// Port `index` of `node`.
struct Port {
  int64_t node = 0;
  uint32_t index = 0;
};

/// Nodes `first` up to `last`, the latter not included.
struct NodeRange {
  int64_t first = 0, last = 0;
};

/// Link ids count from 0 within the network; System puts them after the nodes' own links.
/// Immutable once made: any thread may read it.
class Network {
 public:
  virtual ~Network() = default;
  virtual uint64_t link_count() const = 0;
  virtual Bandwidth bandwidth(uint64_t id) const = 0;  ///< raw, one direction
  /// "from>to" in the block's own words, where ports are "node3/port0" (or "node3" without switches).
  virtual std::string label(uint64_t id) const = 0;
  /// Appends the links from one port to another of a different node. O(route length).
  virtual void route(Port from, Port to, std::vector<uint64_t>& links) const = 0;
  /// The nodes that the link joins to all others: one for the cable of a port, those below the switch for its
  /// trunk. Empty where no such nodes stand side by side. O(levels).
  virtual NodeRange below(uint64_t) const { return {}; }
  /// Of a direct torus, nodes in row-major order; empty where switches join the nodes.
  virtual std::vector<int64_t> sizes() const { return {}; }
};

struct NetworkBlock {
  std::string_view name, summary;
  std::vector<std::string> keys;  ///< that it reads from the "network" object beyond the common ones
  /// `spec` is the "network" object. Throws InputError.
  std::unique_ptr<Network> (*make)(const NetworkShape& shape, const Json& spec);
};

/// Generated from the list in topologies/CMakeLists.txt.
const Registry<NetworkBlock>& blocks_registry();

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is broken in a system: cables, switches, NICs and ports at a fraction of their bandwidth or down,
// devices at a fraction of their speed. Internal to topologies.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "topologies/blocks/network.h"
#include "topologies/node.h"

namespace tandem::topologies {

/// One entry of the file's "faults" object. Keys: "gpu3" (speed of a device; of a switch or NIC: all its
/// cables), "cpu0:cpu1" (a cable, both ways), "node2/..." of one node only, else of every node; or a
/// link of the network by its ends, "node0/port1:leaf0". Values: what is left, in (0, 1], or "down".
struct Fault {
  std::string from, to;  ///< `to` is empty for a vertex; without "node2/"
  std::string name;      ///< as written
  int64_t node = -1;     ///< -1: every node
  double left = 1;       ///< 0: down
  Place place;
};

/// Reads "faults" of a document; empty without one. Throws InputError.
std::vector<Fault> read_faults(const Json& document);

/// Strikes the cables of a node template, before finish(), and returns the speeds of slowed devices by
/// vertex. False in `known` when the template has no such vertex or cable. Throws InputError for devices
/// that are down and parallel classes are all affected equally.
struct Struck {
  bool known = false;
  uint32_t device = UINT32_MAX;  ///< vertex of a slowed device
};
Struck strike(NodeTemplate& node, const Fault& fault);

/// A copy that is not finished yet.
NodeTemplate unfinished(const NodeTemplate& node);

/// `whole` with links by id at a fraction of their bandwidth (0 = down). Routes keep off links that are down:
/// where the block's own route would cross one, by the fewest hops over what is left (ties: lowest link id);
/// route() throws InputError when nothing is. Memory O(links) once a detour is needed.
std::unique_ptr<Network> faulty_network(std::unique_ptr<Network> whole, std::map<uint64_t, double> left);

/// The links between the two ends of a fault, both ways; empty when the network has none.
std::vector<uint64_t> links_between(const Network& network, const Fault& fault);

}  // namespace tandem::topologies

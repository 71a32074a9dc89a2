// SPDX-License-Identifier: Apache-2.0
#pragma once
// The node template: a boost graph of one node and its routes. Internal to topologies.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/units.h"
#include "topologies/vertex.h"

namespace tandem::topologies {

/// How far a DMA between two devices may reach without being staged through host memory. NVLink and other
/// direct cables are always allowed.
enum class Reach : uint8_t { none, pcie_switch, host_bridge, system };
std::string_view name(Reach reach);
Reach parse_reach(const Json& value);

/// A class of links as the file declares it.
struct LinkClass {
  std::string kind;
  Bandwidth bandwidth;  ///< of one lane, one direction
  double achieved = 1;
  Time latency;
  bool half_duplex = false;
};

/// One direction of a cable. The reverse direction has the id `id ^ 1`.
struct NodeLink {
  uint32_t from = 0, to = 0;
  uint32_t link_class = 0;
  int lanes = 1;
  double left = 1;  ///< share of the bandwidth that a fault leaves; 0 = down, no path takes it
};

/// A path inside the node and what it crosses.
struct NodePath {
  std::vector<uint32_t> links;
  Reach needs = Reach::none;  ///< least reach that makes it a direct access
  bool found = false;
};

class NodeTemplate {
 public:
  std::vector<Vertex> vertices;
  std::vector<LinkClass> classes;
  std::vector<NodeLink> links;
  bool through_gpus = false;  ///< GPUs may forward for others

  /// Builds the boost graph; call once after filling the fields above.
  void finish();
  NodeTemplate();
  ~NodeTemplate();
  NodeTemplate(NodeTemplate&&) noexcept;
  NodeTemplate& operator=(NodeTemplate&&) noexcept;
  double width(uint32_t link) const;  ///< usable bytes/s
  /// Fewest hops, among those the widest. Only CPUs and switches forward (and GPUs if through_gpus).
  /// One Dijkstra per source, remembered; thread safe.
  NodePath path(uint32_t from, uint32_t to) const;
  /// Hops and width of path(from, to); hops -1 when there is none.
  struct Distance {
    int hops = -1;
    double width = 0;
  };
  Distance distance(uint32_t from, uint32_t to) const;
  /// Vertices not connected to `from` by any cables at all are told apart from those that only a
  /// forwarding GPU would reach.
  bool connected(uint32_t from, uint32_t to) const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine or cluster: node templates (boost graphs), each times its number of nodes, joined by a network
// block. Only the templates' routes are kept; everything across nodes is computed on demand, so a system of
// 100,000 devices costs what one node costs.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topologies/devices/device.h"
#include "topologies/packet_loss.h"
#include "topologies/vertex.h"

namespace tandem::topologies {

using VertexId = uint32_t;  ///< node by node, in the order of the node's template
using LinkId = uint32_t;    ///< one direction of a cable: node links first, then the network block's

/// One direction of a link. Parallel lanes are merged into one capacity.
struct LinkInfo {
  std::string name;     ///< "node2/gpu0>pcie-switch0"; network links by their block's rule
  std::string kind;     ///< the class it was declared in: "nvlink", "pcie", "socket", "nic", "network", ...
  Bandwidth bandwidth;  ///< raw, one direction
  double achieved = 1;  ///< fraction of it that large transfers reach (source in the data file)
  Time latency;
  LinkId shared_with;  ///< half duplex: the reverse direction's id (same capacity pool), else itself
  int lanes = 1;       ///< parallel cables merged into it, as declared
  double usable() const { return bandwidth.bytes_per_second * achieved; }
};

/// A way from a to b. `staged` counts copies through host memory on it (0 = direct peer access or RDMA).
struct Route {
  std::vector<LinkId> links;  ///< in order; a link may stand twice when staging crosses it twice
  Time latency;               ///< sum of the links' latencies plus the transport's per message
  int staged = 0;
  double cap = 0;  ///< bytes/s that one flow can reach whatever the links allow; 0 = no cap
};

/// Consecutive nodes that are described the same way.
struct KindOfNode {
  std::string name;  ///< "" for those that the file describes outside "node_kinds"
  int64_t first = 0, nodes = 1;
};

/// What storage gives besides bandwidth; 0: no limit, no delay.
struct StorageLimits {
  double operations = 0;  ///< reads per second
  double metadata = 0;    ///< files opened per second, by all metadata servers together
  Time latency;           ///< of an operation that waits for no other
};

/// The input side of one node and what all nodes share.
struct HostInfo {
  int cores = 0;             ///< physical cores of one node
  double core_speed = 1;     ///< image-decode speed of one core relative to a 2.3 GHz Broadwell core
  Bandwidth local_storage;   ///< of one node
  Bandwidth shared_storage;  ///< of all nodes together; 0 = data is local
  StorageLimits local_limits, shared_limits;
  Bytes memory;          ///< of a node; 0: what its processors have, where that is known
  Bytes page_cache;      ///< of a node's memory, for files that were read; 0: nothing is found there again
  double jitter = 0.01;  ///< lognormal sigma of a device's step time on this host (1 % is common)
};

/// Immutable once made: any thread may read it. Copies share what it holds and cost nothing.
class System {
 public:
  /// "--set path=value" pairs: ("nodes", "16"), ("links.pcie.bandwidth", "32GB/s"), ("faults.gpu3", "0.8");
  /// and changes that are no single figure: ("without", "nvlink"), ("bridges", "0-1,2-3"), ("device",
  /// "rtx-3090"),
  /// ("place", "0,1,4,5") (topologies/edits.h). Made in order.
  using Sets = std::vector<std::pair<std::string, std::string>>;
  /// `name_or_file`: a name in topologies/systems or a .json path. Throws InputError.
  static System load(const std::string& name_or_file, const Sets& sets = {}, const Place& place = {});
  static System from_json(Json document, const Sets& sets = {});
  /// The file with what was set in it, unread. Throws InputError.
  static Json document(const std::string& name_or_file, const Sets& sets, const Place& place = {});
  /// The document that this system was made from, with other changes instead; no file is read again. Throws
  /// InputError.
  System with(const Sets& sets) const;
  Json document(const Sets& sets) const;

  const std::string& name() const;
  const std::string& summary() const;
  int64_t nodes() const;
  /// The kinds of nodes, at least one. All have equally many accelerators of one VertexKind.
  std::vector<KindOfNode> kinds() const;
  std::size_t kind_of(VertexId v) const;  ///< the number of its node's kind; O(kinds)
  /// Nodes of two kinds have the same vertices and cables, whatever devices and link figures.
  bool same_shape(std::size_t kind_a, std::size_t kind_b) const;
  /// The template of a kind of nodes.
  const std::vector<Vertex>& vertices(std::size_t kind = 0) const;
  const std::vector<Device>& devices() const;
  /// Template indices of what trains: the GPUs or TPUs, or where there are none the CPUs.
  const std::vector<uint32_t>& accelerators(std::size_t kind = 0) const;
  int64_t accelerator_count() const { return nodes() * static_cast<int64_t>(accelerators().size()); }
  const HostInfo& host(std::size_t kind = 0) const;
  /// HostInfo::memory of a kind of nodes, or what its processors have together; 0 where one of them is
  /// generic, whose figure is of no product, or there are none.
  Bytes host_memory(std::size_t kind = 0) const;
  /// Dotted paths of the file's figures that nobody checked: "network", "links.pcie".
  const std::vector<std::string>& unverified() const;
  /// Free-form figures of the data file's "communication" object that sim/cost reads (library, protocol
  /// constants, staging rules), so that the system file stays the one place for a machine's facts.
  const Json& communication() const;
  /// How messages enter the network: "tcp", "ipoib", "rdma", "efa", ...; empty where nothing joins nodes.
  std::string_view transport() const;
  Time transport_latency()
      const;  ///< of one message, besides the network's hops; zero where nothing joins nodes
  const PacketLoss& packet_loss() const;  ///< in the ports of what joins the nodes

  VertexId vertex(int64_t node, uint32_t local) const;
  int64_t node_of(VertexId v) const;
  const Vertex& info(VertexId v) const;
  const Device& device(VertexId v) const;  ///< requires info(v).device >= 0
  /// The i-th accelerator in node-major order.
  VertexId accelerator(int64_t i) const;
  /// The CPU that serves `v`: same node and socket, else the node's first; `v` itself for a CPU.
  VertexId host_of(VertexId v) const;
  /// Share of its speed that a fault leaves a device, 1 without one.
  double speed(VertexId v) const;
  /// No fault strikes a single node or link of the network: what holds for one node holds for all of its
  /// kind.
  bool uniform() const;
  const std::vector<std::string>& faults() const;  ///< in words: "cpu0:cpu1 at 50 %"
  std::string vertex_name(VertexId v) const;       ///< "gpu3" on one node, "node2/gpu3" else

  /// Sizes of the direct torus that the nodes form in row-major order; empty where switches join them.
  std::vector<int64_t> torus() const;

  std::size_t link_count() const;
  LinkInfo link(LinkId id) const;
  /// Standard deviation of the logarithm of what copies through the memory of such a host reach, where hosts
  /// that are described the same way differ and this one was not measured; 0 elsewhere.
  double staged_spread(std::size_t kind = 0) const;
  // The figures of link(id) without building its name: for loops over all links.
  double usable(LinkId id) const;   ///< bytes/s, one direction
  LinkId pool(LinkId id) const;     ///< half duplex: the lower id of the pair; else itself
  LinkId reverse(LinkId id) const;  ///< the other direction of a node's cable; a network's link itself
  std::string_view link_kind(LinkId id) const;
  /// The nodes [first, second) that a link joins to the others: its own, or those below a switch of the
  /// network; none where a block has no such nodes (Network::below). O(levels of the network).
  std::pair<int64_t, int64_t> nodes_below(LinkId id) const;
  /// Widest of the shortest allowed paths over what faults leave (throws InputError when the network falls
  /// apart). Peer access rules of the data file decide about staging.
  /// a == b gives an empty route. Thread safe.
  Route route(VertexId a, VertexId b) const;
  /// Graphviz dot text of one node of each kind and its place in the network. Of several kinds, vertices have
  /// the name of the first node's: "node2/gpu0".
  std::string dot() const;
  std::string to_json_text() const;  ///< what `show system NAME --format json` prints

 private:
  struct Impl;
  friend class SystemReader;
  explicit System(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

struct SystemEntry {
  std::string name, summary;
};
std::vector<SystemEntry> list_systems();
std::vector<SystemEntry> list_devices();

}  // namespace tandem::topologies

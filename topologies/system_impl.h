// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a System holds. Internal to topologies.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "topologies/blocks/network.h"
#include "topologies/faults.h"
#include "topologies/node.h"
#include "topologies/node_kinds.h"
#include "topologies/packet_loss.h"
#include "topologies/system.h"

namespace tandem::topologies {

/// When two devices of one node may access each other, and what it costs when they may not.
struct PeerAccess {
  Reach reach = Reach::pcie_switch;
  double through_host_cap = 0;    ///< bytes/s of one direct flow that crosses a CPU; 0 = what the links give
  double staged_cap = 0;          ///< bytes/s of one flow copied through host memory; 0 = what the links give
  double staged_cap_sockets = 0;  ///< the same of a flow between sockets; 0 = staged_cap
  Time staged_latency;            ///< extra per staging
  double staged_spread = 0;       ///< System::staged_spread()
  /// Bytes/s of one flow between two template vertices, instead of the caps above: staged ones and direct
  /// ones.
  std::map<std::pair<uint32_t, uint32_t>, double> staged_pairs, direct_pairs;
};

/// How messages enter the network.
struct Transport {
  std::string name = "tcp";
  Time latency;                   ///< per message: software and NIC of both ends
  double flow_cap = 0;            ///< bytes/s of one flow, 0 = the link's
  Reach gpudirect = Reach::none;  ///< the NIC reads device memory when their path needs no more than this
  PacketLoss loss;
};

/// Consecutive nodes that are described the same way.
struct NodeKind {
  std::string name;  ///< in "node_kinds"; "" for the nodes that the file describes outside it
  int64_t first = 0, nodes = 1;
  uint64_t first_vertex = 0, first_link = 0;  ///< ids of the first node's
  uint32_t shape = 0;                         ///< the first kind with the same vertices and cables
  NodeTemplate node;
  std::vector<uint32_t> accelerators;  ///< template indices
  HostInfo host;
  PeerAccess peer;
  std::vector<uint32_t> ports;  ///< template vertices that plug into the network
  // Per template vertex.
  std::vector<uint32_t> host_of, stage_of, port_of;  ///< CPU, staging buffer, index into ports

  uint64_t vertices() const { return static_cast<uint64_t>(nodes) * node.vertices.size(); }
  uint64_t links() const { return static_cast<uint64_t>(nodes) * node.links.size(); }
};

struct System::Impl {
  Json file;  ///< the document without what was set
  std::string name, summary;
  int64_t nodes = 1;
  std::vector<NodeKind> kinds;  ///< at least one, in the order of their nodes
  std::vector<Device> devices;  ///< one per distinct model and power limit
  std::vector<std::string> unverified;
  Json communication;

  std::string block;  ///< of the network; empty = the system has none
  NetworkShape shape;
  Transport transport;
  std::unique_ptr<Network> network;

  /// A node that faults made different from the others of its kind: the same vertices and link ids.
  struct OddNode {
    NodeTemplate node;
    std::vector<uint32_t> port_of;
  };
  std::map<int64_t, OddNode> odd;
  /// Of slowed devices by node and template index; node -1 - k: of every node of kind k.
  std::map<std::pair<int64_t, uint32_t>, double> speed;
  std::vector<std::string> faults;             ///< for people
  bool uniform = true;                         ///< no fault strikes a single node or network link
  std::size_t kind_at(int64_t at_node) const;  ///< O(kinds), as all of these
  const NodeKind& kind(int64_t at_node) const { return kinds[kind_at(at_node)]; }
  const NodeTemplate& node_at(int64_t at_node) const;
  uint32_t port_at(int64_t at_node, uint32_t v) const;
  /// A vertex or a node's link by its place.
  struct Spot {
    const NodeKind* kind = nullptr;
    int64_t node = 0;
    uint32_t local = 0;  ///< index in the node template
  };
  Spot vertex_spot(uint64_t id) const;
  Spot link_spot(uint64_t id) const;  ///< requires id < node_links()
  uint64_t node_links() const { return kinds.back().first_link + kinds.back().links(); }  ///< of all nodes

  /// Appends a node path as global link ids.
  void append(Route& route, int64_t at_node, const NodePath& path) const;
  void local_route(Route& route, int64_t at_node, uint32_t a, uint32_t b) const;
  /// Between a template vertex and its port; `out` = towards the network.
  void edge_route(Route& route, int64_t at_node, uint32_t v, bool out) const;
  LinkInfo node_link(uint64_t id) const;
};

/// The share of its "bandwidth" that the "width" of a class of links leaves: 0.5 for "x8" of sixteen lanes.
double width_share(const Json& link_class);

/// Reads and checks a document; throws InputError. Keys: docs/formats/system.md.
/// For one thread at a time.
class SystemReader {
 public:
  static std::unique_ptr<System::Impl> read(const Json& document);

 private:
  /// A kind of nodes while it is read.
  struct Draft {
    Json spec;  ///< the whole description of such a node
    std::map<std::string, uint32_t> index = {};
    std::set<std::tuple<uint32_t, uint32_t, uint32_t>> cables = {};
  };

  explicit SystemReader(const Json& document) : document_(document) {}
  void add_kinds();  ///< which there are, and of how many nodes
  void add_kind(std::string name, int64_t nodes, Json spec);
  /// f() for every kind, which spec(), node() and kind() then are of.
  template <typename F>
  void each_kind(F f) {
    for (at_ = 0; at_ < drafts_.size(); ++at_) f();
    at_ = 0;
  }
  NodeKind& kind() const { return out_->kinds[at_]; }
  NodeTemplate& node() const { return kind().node; }
  const Json& spec() const { return drafts_[at_].spec; }
  void vertices();
  void add(const std::string& pattern, const Json& spec, VertexKind kind, int32_t device);
  void place();  ///< which accelerators are used, and in which order
  void links();
  void connect(const Json& pair, uint32_t link_class);
  void mesh(const Json& pattern, uint32_t link_class);
  void cable(uint32_t a, uint32_t b, uint32_t link_class, int lanes, const Place& place);
  std::vector<uint32_t> named(const Json& pattern) const;
  void peer_access();
  void pair_caps(const Json& spec, const char* key,
                 std::map<std::pair<uint32_t, uint32_t>, double>& caps) const;
  static void storage(const Json& host, const std::string& which, Bandwidth& bandwidth,
                      StorageLimits& limits);
  void host();
  void plug();  ///< which vertices plug into the network
  void network();
  void compare();  ///< kinds with each other: what must be equal, and which have one shape
  void number();   ///< vertices and links of all nodes
  void serve();    ///< which CPU and which host memory each vertex uses
  /// Those of the kind's ports that are nearest to a vertex, as indices into them.
  std::vector<uint32_t> nearest_ports(const NodeTemplate& node, uint32_t v) const;
  /// The nearest port of every vertex; equally near ones are dealt out round robin.
  std::vector<uint32_t> ports(const NodeTemplate& node, int64_t at_node) const;
  /// Where accelerators have several equally near NICs each, as many as the poorest of them has become one
  /// port.
  void bond();
  std::vector<std::vector<uint32_t>> bundles() const;  ///< of the kind: NICs of each accelerator
  void join_ports(const std::vector<std::vector<uint32_t>>& bundles);
  void check(const NodeTemplate& node, int64_t at_node) const;
  /// `node`: as in Impl::speed.
  void slow_down(int64_t node, const Fault& fault, const Struck& struck);
  void note_fault(const Fault& fault);
  void strike_all();     ///< faults of every node
  void strike_single();  ///< those of single nodes and of the network

  const Json& document_;
  std::unique_ptr<System::Impl> out_;
  std::vector<Draft> drafts_;  ///< of out_->kinds
  std::size_t at_ = 0;         ///< the kind that is read
  uint32_t bonded_ = 1;        ///< NICs that are one port of the network
  std::map<std::string, int32_t> device_index_;
  std::vector<Fault> faults_;  ///< once strike_all() is done: those left for strike_single()
};

}  // namespace tandem::topologies

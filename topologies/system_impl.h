// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a System holds. Internal to topologies.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "topologies/faults.h"
#include "topologies/network.h"
#include "topologies/node.h"
#include "topologies/system.h"

namespace tandem::topologies {

/// When two devices of one node may access each other, and what it costs when they may not.
struct PeerAccess {
  Reach reach = Reach::pcie_switch;
  double through_host_cap = 0;    ///< bytes/s of one direct flow that crosses a CPU; 0 = what the links give
  double staged_cap = 0;          ///< bytes/s of one flow copied through host memory; 0 = what the links give
  double staged_cap_sockets = 0;  ///< the same of a flow between sockets; 0 = staged_cap
  Time staged_latency;            ///< extra per staging
};

/// How messages enter the network.
struct Transport {
  std::string name = "tcp";
  Time latency;                   ///< per message: software and NIC of both ends
  double flow_cap = 0;            ///< bytes/s of one flow, 0 = the link's
  Reach gpudirect = Reach::none;  ///< the NIC reads device memory when their path needs no more than this
};

struct System::Impl {
  std::string name, summary;
  int64_t nodes = 1;
  NodeTemplate node;
  std::vector<Device> devices;         ///< one per distinct model
  std::vector<uint32_t> accelerators;  ///< template indices
  HostInfo host;
  std::vector<std::string> unverified;
  Json communication;
  PeerAccess peer;

  std::string block;  ///< of the network; empty = the system has none
  NetworkShape shape;
  Transport transport;
  std::unique_ptr<Network> network;
  std::vector<uint32_t> ports;  ///< template vertices that plug into the network

  // Per template vertex.
  std::vector<uint32_t> host_of, stage_of, port_of;  ///< CPU, staging buffer, index into ports

  /// A node that faults made different from the others: the same vertices and link ids.
  struct OddNode {
    NodeTemplate node;
    std::vector<uint32_t> port_of;
  };
  std::map<int64_t, OddNode> odd;
  std::map<std::pair<int64_t, uint32_t>, double> speed;  ///< of slowed devices; node -1: of every node
  std::vector<std::string> faults;                       ///< for people
  bool uniform = true;                                   ///< no fault strikes a single node or network link
  const NodeTemplate& node_at(int64_t at_node) const;
  uint32_t port_at(int64_t at_node, uint32_t v) const;

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
  explicit SystemReader(const Json& document) : document_(document) {}
  void vertices();
  void add(const std::string& pattern, const Json& spec, VertexKind kind, int32_t device);
  void place();  ///< which accelerators are used, and in which order
  void links();
  void connect(const Json& pair, uint32_t link_class);
  void mesh(const Json& pattern, uint32_t link_class);
  void cable(uint32_t a, uint32_t b, uint32_t link_class, int lanes, const Place& place);
  std::vector<uint32_t> named(const Json& pattern) const;
  void peer_access();
  void host();
  void network();
  void serve();  ///< which CPU and which host memory each vertex uses
  /// The nearest port of every vertex; equally near ones are dealt out in turn.
  std::vector<uint32_t> ports(const NodeTemplate& node, int64_t at_node) const;
  void check(const NodeTemplate& node, int64_t at_node) const;
  void note_fault(const Fault& fault, const Struck& struck);
  void strike_all();     ///< faults of every node
  void strike_single();  ///< those of single nodes and of the network

  const Json& document_;
  std::unique_ptr<System::Impl> out_;
  std::map<std::string, uint32_t> index_;
  std::map<std::string, int32_t> device_index_;
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> cables_;
  std::vector<Fault> faults_;  ///< once strike_all() is done: those left for strike_single()
};

}  // namespace tandem::topologies

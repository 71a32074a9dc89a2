// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shape of one algorithm on one group: link loads per payload byte, steps, caps; independent of the size.
//
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "schemes/collectives/collectives.h"
#include "sim/bound/bound_program.h"
#include "sim/cost/link_profile.h"
#include "topologies/system.h"

namespace tandem::sim {

struct Pattern {
  std::string algorithm;
  /// [class]: resource -> bytes per byte of payload.
  std::array<std::map<uint32_t, double>, kHopClasses> load;
  PerHop steps{};  ///< sequential steps per class
  PerHop wire{};   ///< seconds: sum of the routes' latencies over those steps
  /// Payload bytes/s allowed by the routes' own caps, per class; 0 = none.
  PerHop cap{};
  double extra_time = 0;  ///< seconds per payload byte besides the busiest link (phases that cannot overlap)
  /// Bytes per byte of payload that a rank copies while it sends nothing (rings).
  double own_copy = 0;
  double efficiency = 1;         ///< of the algorithm, on top of the protocol's
  double fabric_efficiency = 1;  ///< the same, where fast links ask more of the cores that copy
  bool tree_in_node = false;     ///< a tree inside a node, whose efficiency depends on the size
  bool one_way = false;   ///< data goes one way, so that the first member is soon free for the next call
  double ring_hop = 0;    ///< bytes per byte of payload that all rings pass on per hop; 0: no ring
  std::size_t heads = 0;  ///< members of a node that reduce in its switch; 0: none does
  double message = 0;     ///< bytes of one message per byte of payload, of grouped sends; 0: none
  /// Of grouped sends inside a node: channels that a message may take, how many times the limit of LL it may
  /// have, bytes that a channel sends at once and gets at least, and bytes per byte of payload that a
  /// member's cores copy, what it sends itself included (0: the links are slower).
  double channels = 1, ll_channels = 1, chunk = 0, part = 0, part_ll = 0, copied = 0;
  double peers = 1;          ///< that a member sends to at once
  double tree_depth = 0;     ///< hops from a leaf to the root of trees that join nodes; 0: none
  double tree_channels = 0;  ///< parts of the payload that such trees move side by side
  /// Bytes that a member sends to and receives from other nodes per byte of payload.
  struct Ends {
    double sent = 0, received = 0;
  };
  std::map<VertexId, Ends> ends;

  /// Adds `weight` payload bytes per byte on every link of `route` and narrows the cap.
  void add(const Route& route, HopClass hop, double weight, const System& system);
  /// The same for a hop between two members, whose threads may have to move the bytes.
  void add(VertexId from, VertexId to, const Route& route, HopClass hop, double weight, const System& system);
};

/// "nvlink", "xgmi" and the like, which join accelerators alone.
bool fabric_kind(std::string_view kind);

/// A route's class and the resource that stands for a link (half-duplex pairs share one).
HopClass hop_class(const System& system, VertexId a, VertexId b, const Route& route);
uint32_t resource_of(const System& system, LinkId link);

/// What takes the place of `v` on the node of `beside`.
VertexId twin_of(const System& system, VertexId v, VertexId beside);
/// The way to another node by the NIC of `from`'s neighbour that takes the place of `to` there, so that it
/// stays on the rail of `to`. Straight where no fast links lead to that neighbour.
Route route_by_rail(const System& system, VertexId from, VertexId to);

/// The ranks of a group as they sit. Nodes in order of first appearance, members in given order.
struct Group {
  std::vector<VertexId> members;
  std::vector<std::vector<VertexId>> by_node;
  bool uniform = false;  ///< every node holds the same vertices of templates of one shape
  /// Runs of nodes of one kind that follow each other.
  struct Run {
    std::size_t first = 0, nodes = 0;
  };
  std::vector<Run> runs;
  /// Whether the links of a node are laid, where a few of each run stand for the rest: the run's first three.
  bool lays(std::size_t node) const;
  std::size_t ranks() const { return members.size(); }
  std::size_t nodes() const { return by_node.size(); }
};
Group make_group(const System& system, std::span<const VertexId> members);
/// How many nodes of the group, from its first on, are below the first switch of the network that joins
/// several; 1 where none does. Nodes in ascending order.
std::size_t nodes_of_leaf(const System& system, const Group& group);
/// Groups above this size are priced by representative nodes.
inline constexpr std::size_t kEnumeratedRanks = 1024;
/// The same for schedules, whose steps may hold a move per pair of ranks.
inline constexpr std::size_t kScheduledRanks = 256;

/// Orders of a node's members (indices into by_node.front()) and the share of the payload each carries.
struct Ring {
  std::vector<uint32_t> order;
  double share = 1;
};
/// Packs rings over the residual bandwidth of the links (as NCCL's search): cycles inside one node, or paths
/// that the node-by-node ring closes over the network. At least one; one in given order if `pack` is off or
/// the nodes differ. Cost: 3 g^2 routes for g members per node and at most 2^14 order prefixes per ring.
std::vector<Ring> search_rings(const System& system, const Group& group, bool pack);

/// Node-by-node rings: every member passes on what the one before sent it. Not all-to-all. `on_rails`: a ring
/// leaves every node by the NIC that it enters the next one by.
Pattern ring_pattern(const System& system, const Group& group, CollKind kind, const std::vector<Ring>& rings,
                     bool on_rails);
/// True when the node's members all hang on a switch of their fabric.
bool has_switch(const System& system, const Group& group);
/// Members that send straight to each other: `sends(i)` lists whom member i sends to and how many bytes per
/// byte of payload. All at once.
using Sends = std::function<std::vector<std::pair<std::size_t, double>>(std::size_t)>;
Pattern sends_pattern(const System& system, const Group& group, const Sends& sends);
/// Tells the channels of grouped sends of a group, of which a member copies `copied` bytes per byte of
/// payload to `peers` others.
void share_channels(Pattern& p, const Group& group, const Library& library, double copied, double peers);
/// The protocols that grouped sends run under: small messages "ll", others the bulk one, with the same start.
std::vector<Protocol> message_protocols(const Library& library);
/// The least seconds per byte of payload that the links allow whatever the library does: cuts around members,
/// sockets and nodes, and the volume that all members together must send. Latency is left out.
double least_seconds_per_byte(const System& system, const Group& group, CollKind kind, bool switch_reduces);
/// Any algorithm by its schedule; extrapolated from smaller groups above kScheduledRanks.
Pattern schedule_pattern(const System& system, const Group& group, CollKind kind,
                         const CollectiveAlgorithm& algorithm);

}  // namespace tandem::sim

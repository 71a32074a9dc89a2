// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rounds in which many send to one port of a network that loses packets or pauses senders: what they wait
// for, and a record of the worst of them.
#include <span>
#include <string>
#include <vector>

#include "schemes/report/report.h"
#include "sim/cost/incast.h"
#include "topologies/system.h"

namespace tandem::sim {

/// A message that senders on other nodes send to each of `receivers`, all at once.
struct ManyToMany {
  std::string what;  ///< "worker to server", "all-to-all"
  std::span<const VertexId> senders, receivers;
  double bytes = 0;    ///< from each to each
  double at_once = 1;  ///< share of the senders that send in the same round
  double as_one = 1;   ///< devices of a node that share its connections, each with its part of the bytes
  bool alone = false;  ///< each receiver has its own round, at another time than its neighbours
};

/// Keeps a reference to `system`. Not thread safe.
class IncastRounds {
 public:
  /// `timers`: how many times as fast timers run as the system says.
  IncastRounds(const System& system, double timers) : system_(system), timers_(timers) {}
  /// Nothing is lost and nobody paused: no round waits, and none is recorded.
  bool none() const { return system_.packet_loss().kind == PacketLoss::Kind::none; }
  /// [receiver]: what its messages take longer than their share of the links gives. Messages within a node,
  /// and the only one into a port, take no longer. O(senders + receivers) routes and map look-ups.
  std::vector<Time> delays(const ManyToMany& round);
  /// The longest of delays() between the members of a group, each of whom sends to every other (`gather`: to
  /// the first).
  Time group(const std::string& what, std::span<const VertexId> members, double bytes, bool gather = false);
  /// The round that waits longest of each `what`, in order of first appearance.
  const std::vector<IncastRound>& worst() const { return worst_; }

 private:
  void record(const IncastRound& round);

  const System& system_;
  double timers_;
  std::vector<IncastRound> worst_;
};

/// More than half a per cent of the link is lost, or pauses may hold others back.
inline bool worth_telling(const IncastRound& round) { return round.buffer.n == 0 || round.goodput < 0.995; }
/// "incast: 28 senders into one port of 1 MB: ...".
std::string incast_text(const IncastRound& round);

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which worker sends to which: messages between stages, and tokens between devices with different experts.
// Devices of a node are neighbours in the grid. Internal to exec.
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/comm/peer_links.h"
#include "exec/run/network.h"
#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Of a pipeline. Made by one thread; then any may ask. The header of PeerLinks states its rules.
class StagePaths {
 public:
  /// All arguments outlive it.
  StagePaths(const RunPlan& plan, Network& network, Abort& abort, int spins);
  /// Opens both ends of each path, when all are made that take messages from the network.
  void open();
  PeerLinks& links() { return *links_; }  ///< of a program whose stages exchange messages
  /// The path of a channel's messages from or to a worker; its peer has the same number in the other role.
  PeerLinks::Pair of(uint32_t channel, uint32_t key, uint32_t instance) const;

 private:
  const RunPlan& plan_;
  const Network& network_;
  std::unique_ptr<PeerLinks> links_;
};

/// A path between each pair of members of a collective: the number of tokens is known when they arrive. Made
/// by one thread; then any may ask.
class TokenPaths {
 public:
  /// As above.
  TokenPaths(const RunPlan& plan, Network& network, Abort& abort, int spins);
  void open();
  PeerLinks& links() { return *links_; }  ///< of a program that deals experts
  /// From one rank of a collective's group to another.
  PeerLinks::Pair of(uint32_t collective, uint32_t group, uint32_t from, uint32_t to) const;

 private:
  const Network& network_;
  std::unique_ptr<PeerLinks> links_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> members_;  ///< [collective, group]
};

}  // namespace tandem::exec

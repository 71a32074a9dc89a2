// SPDX-License-Identifier: Apache-2.0
#pragma once
// When gradients are summed, where no worker decides that alone (Horovod's coordinator; rounds.cpp). Internal
// to exec.
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/comm/collective.h"
#include "exec/run/network.h"
#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Of workers that are processors. Made by one thread; then any may call the const functions.
/// The header of GroupCollective states its
/// rules.
class Coordinator {
 public:
  /// All arguments outlive it.
  Coordinator(const RunPlan& plan, Network& network, Abort& abort, int spins);
  /// Period in ns at which it checks which gradients all workers have; 0: there is none.
  int64_t cycle() const { return cycle_; }
  /// Elements that it sums at once, unless a bucket is larger.
  int64_t most_fused() const { return most_fused_; }
  /// Whether it decides when the op's gradients are summed.
  bool decides(const Op& op) const;
  /// Lane of the sums that it decides on.
  Lane lane() const { return lane_; }
  /// How many workers sum the same gradients as worker `instance`.
  uint32_t members(uint32_t instance) const { return member_[instance].ranks; }
  /// Those tell each other what they have: as GroupCollective::run() does, for worker `instance`.
  void agree(uint32_t instance, float* votes, int64_t count) {
    agreements_[member_[instance].group]->run(member_[instance].rank, votes, count);
  }

 private:
  const RunPlan& plan_;
  int64_t cycle_ = 0, most_fused_ = 0;
  Lane lane_ = Lane::comm;
  std::vector<GroupMember> member_;                           ///< [worker]
  std::vector<std::unique_ptr<GroupCollective>> agreements_;  ///< [group]
};

}  // namespace tandem::exec

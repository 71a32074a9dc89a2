// SPDX-License-Identifier: Apache-2.0
#pragma once
// When the host of one instance has issued its compute ops: the same for every evaluator.
#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// For one thread at a time.
class HostClock {
 public:
  /// From when on the host issues the iteration: an op RoleCosts::issued after that. Iterations in order, and
  /// again after ended(). `waited`: end of the compute lane's iteration before, 0 before the first.
  int64_t begin(const RoleCosts& costs, uint32_t of_class, uint32_t iteration, int64_t waited) {
    for (; iteration_ < iteration; ++iteration_) {
      int64_t& held = held_[iteration_ % kAhead];
      begun_ = costs.runs_ahead ? std::max(begun_, held) + costs.issue[of_class].ps : waited;
      held = 0;
    }
    return std::max(begun_, held_[iteration % kAhead]);
  }
  /// When a compute op is issued that is about to start; ops of the compute lane in order.
  int64_t issued(const RoleCosts& costs, uint32_t of_class, uint32_t op, uint32_t iteration, int64_t waited) {
    if (costs.issued.empty()) return 0;
    return begin(costs, of_class, iteration, waited) + costs.issued[of_class][op].ps;
  }

  /// The host waits for an op before it issues what follows: for a message, for a result that it reads, or
  /// for the first samples; later ones are there before it asks, unless the device waits for them too.
  static bool waits_for(const RoleCosts& costs, OpKind kind, uint32_t op, uint32_t iteration) {
    if (costs.issued.empty() || (kind == OpKind::copy && iteration > 0)) return false;
    if (kind == OpKind::recv) return costs.awaits_messages;
    return kind == OpKind::send ? costs.awaits_sends : !costs.awaited.empty() && costs.awaited[op];
  }

  /// An op for which the host waits has ended at `end`. At most kAhead - 1 iterations ahead of the compute
  /// lane.
  void ended(const RoleCosts& costs, uint32_t of_class, uint32_t op, uint32_t iteration, int64_t end) {
    int64_t& held = held_[iteration % kAhead];
    held = std::max(held, end - costs.issued[of_class][op].ps);
  }

 private:
  static constexpr uint32_t kAhead = 4;
  uint32_t iteration_ = 0;
  int64_t begun_ = 0;                      ///< with `iteration_`
  std::array<int64_t, kAhead> held_ = {};  ///< [iteration]: no earlier than so because of messages
};

}  // namespace tandem::sim

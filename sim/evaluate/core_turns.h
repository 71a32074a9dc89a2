// SPDX-License-Identifier: Apache-2.0
#pragma once
// Instances that share fewer processors in time slices than there are of them, as Linux' fair scheduler lets
// threads of equal weight: round robin, whoever wakes goes to the end of the line. A processor's turns end by
// its clock's ticks, whoever has got it in between: else two that hand a lock to each other would do so for
// ever.
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

/// For one thread at a time. Times are picoseconds; `now` never goes back.
class CoreTurns {
 public:
  /// `shared`: with cores and turns; outlives it. `seed`: where in the recorded turns each processor begins.
  CoreTurns(const SharedCores& shared, uint32_t instances, uint64_t seed);

  /// The instance wants to compute for `work` >= 0 from now on. It has no other work under way.
  void want(uint32_t instance, int64_t work, int64_t now);
  /// The instance waits for others: whoever is next in line may go on. Nothing if it has no processor.
  void leave(uint32_t instance, int64_t now);
  /// The processor of an instance, and when it has to be looked at: kNever if nothing is going on there.
  uint32_t core_of(uint32_t instance) const { return instance % static_cast<uint32_t>(cores_.size()); }
  int64_t next(uint32_t core) const { return cores_[core].next; }
  /// When the turn that is going on at its processor is over.
  int64_t turn_end(uint32_t instance, int64_t now);
  /// At next(core): ends a turn, or the work of an instance, which is returned (kNobody: of none). That one
  /// keeps the processor until it leaves or its turn is over.
  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t look(uint32_t core, int64_t now);

 private:
  struct Core {
    uint32_t holder = kNobody;
    std::deque<uint32_t> line;
    int64_t since = 0, turn_ends = 0, next = kNever;
    int64_t kept_until = 0;  ///< by who got it in the middle of a turn
    std::size_t turn = 0;
  };
  void advance(Core& core, int64_t now);
  void roll(Core& core, int64_t now);
  void give(Core& core, int64_t now);
  void plan(Core& core, int64_t now);
  int64_t turn(Core& core);

  const SharedCores& shared_;
  std::vector<Core> cores_;
  std::vector<int64_t> work_;  ///< [instance]: left to do; -1: none is wanted
};

}  // namespace tandem::sim

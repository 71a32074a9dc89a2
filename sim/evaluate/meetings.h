// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the members of collectives meet in the event evaluator.
#include <cstdint>
#include <vector>

#include "sim/bound/groups.h"
#include "sim/evaluate/event_roles.h"

namespace tandem::sim {

/// The groups of collectives on the same axes and lane.
struct Meeting {
  Groups groups;
  std::vector<uint32_t> arrived;  ///< [group]
  std::vector<uint32_t> last;     ///< [group]: who came last, the lowest of several
};

/// Of all roles. For one thread at a time.
class Meetings {
 public:
  /// `program` outlives it.
  Meetings(const Program& program, const EventRoles& roles);
  Meeting& of(uint32_t r, const Op& op) { return meetings_[shared_[r][place(op)]]; }

 private:
  static std::size_t place(const Op& op) { return op.what * kLanes + static_cast<std::size_t>(op.lane); }

  std::vector<Meeting> meetings_;
  std::vector<std::vector<uint32_t>> shared_;  ///< [role][collective * kLanes + lane]: index into meetings_
};

}  // namespace tandem::sim

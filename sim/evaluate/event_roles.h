// SPDX-License-Identifier: Apache-2.0
#pragma once
// The roles of a program as the event evaluator walks them.
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/bound/bound_program.h"

namespace tandem::sim {

struct EventRole {
  std::span<const Op> ops;
  std::vector<uint32_t> next;  ///< [op]: the next of its lane; of the last the list's end
  uint32_t base = 0;           ///< global number of instance 0
  uint32_t count = 0;
  uint16_t lanes = 0;  ///< bit set of lanes in use
  bool serves = false;
  bool issues = false;  ///< the host takes time to issue
  const Role* role = nullptr;
  const RoleCosts* costs = nullptr;
  uint32_t first[kLanes] = {};  ///< op of each lane
  uint32_t end() const { return static_cast<uint32_t>(ops.size()); }
  template <typename F>
  void each_lane(F f) const {
    for (unsigned left = lanes; left != 0; left &= left - 1) f(std::countr_zero(left));
  }
};

/// Instances are numbered globally, role after role. Immutable once made: any thread may read it.
class EventRoles {
 public:
  /// `plan` outlives it. Throws InputError: more instances than there are numbers.
  explicit EventRoles(const BoundProgram& plan);
  const EventRole& operator[](uint32_t r) const { return roles_[r]; }
  uint32_t count() const { return static_cast<uint32_t>(roles_.size()); }
  uint32_t workers() const { return roles_[0].count; }
  uint32_t instances() const { return static_cast<uint32_t>(role_of_.size()); }
  uint32_t of(uint32_t global) const { return role_of_[global]; }
  /// Of a lane's number.
  uint32_t of_lane(uint32_t lane_id) const { return role_of_[lane_id / kLanes]; }
  uint32_t instance_of(uint32_t lane_id) const { return lane_id / kLanes - roles_[of_lane(lane_id)].base; }
  uint64_t weight(uint32_t global) const { return weight_[global]; }  ///< Recorder's

 private:
  void build(const BoundProgram& plan, uint32_t r);

  std::vector<EventRole> roles_;
  std::vector<uint32_t> role_of_;  ///< [global instance]
  std::vector<uint64_t> weight_;   ///< likewise
};

}  // namespace tandem::sim

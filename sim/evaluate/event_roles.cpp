// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_roles.h"

#include "sim/evaluate/recorder.h"

namespace tandem::sim {

EventRoles::EventRoles(const BoundProgram& plan) : roles_(plan.program->roles.size()) {
  uint64_t instances = 0;
  for (const Role& role : plan.program->roles) instances += static_cast<uint64_t>(role.mesh.size());
  if (instances >= UINT32_MAX / kLanes)
    throw InputError("more than 2^30 instances cannot be simulated event by event");
  for (uint32_t r = 0; r < count(); ++r) build(plan, r);
}

void EventRoles::build(const BoundProgram& plan, uint32_t r) {
  EventRole& info = roles_[r];
  info.role = &plan.program->roles[r];
  info.costs = &plan.roles.at(r);
  info.base = r == 0 ? 0 : roles_[r - 1].base + roles_[r - 1].count;
  info.count = static_cast<uint32_t>(info.role->mesh.size());
  info.serves = info.role->on_channel >= 0;
  role_of_.insert(role_of_.end(), info.count, r);
  for (uint32_t i = 0; i < info.count; ++i) weight_.push_back(Recorder::weight(r, i));
  const OpList& list = info.role->ops;
  info.ops = {list.begin(), list.end()};
  info.issues = !info.costs->issued.empty();
  info.next.assign(info.end(), info.end());
  uint32_t* last[kLanes];  // what the next op of a lane is written to
  for (int lane = 0; lane < kLanes; ++lane) *(last[lane] = &info.first[lane]) = info.end();
  for (uint32_t o = 0; o < info.end(); ++o) {
    uint32_t*& of_lane = last[static_cast<int>(info.ops[o].lane)];
    *of_lane = o;
    of_lane = &info.next[o];
    info.lanes = static_cast<uint16_t>(info.lanes | 1U << static_cast<int>(info.ops[o].lane));
  }
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/shared_processors.h"

namespace tandem::sim {

SharedProcessors::SharedProcessors(const BoundProgram& plan, uint32_t workers, EventList& events)
    : shares_(plan.disturbance.shared), events_(events), workers_(workers) {
  if (shares_.cores == 0) return;
  turns_.emplace(shares_, workers, plan.seed);
  wakes_.assign(shares_.cores, kNever);
  computing_.assign(workers, 0);
  held_until_.assign(std::size_t{workers} * kLanes, kNever);
}

void SharedProcessors::work(uint32_t worker, uint32_t lane_id, int64_t work) {
  computing_[worker] = lane_id;
  turns_->want(worker, work, events_.now());
  wake(turns_->core_of(worker));
}

void SharedProcessors::wake(uint32_t core) {
  if (turns_->next(core) >= wakes_[core]) return;
  wakes_[core] = turns_->next(core);
  events_.schedule(wakes_[core] - events_.now(), event::of(event::kCore, core));
}

void SharedProcessors::leave(uint32_t worker) {
  if (!turns_ || worker >= workers_) return;
  turns_->leave(worker, events_.now());
  wake(turns_->core_of(worker));
}

uint32_t SharedProcessors::look(uint32_t core) {
  if (events_.now() < wakes_[core]) return CoreTurns::kNobody;  // an earlier look was scheduled and has come
  wakes_[core] = kNever;
  const bool early = turns_->next(core) > events_.now();
  const uint32_t worker = early ? CoreTurns::kNobody : turns_->look(core, events_.now());
  wake(core);
  return worker;
}

void SharedProcessors::hold(uint32_t worker, uint32_t lane_id) {
  held_until_[lane_id] = turns_->turn_end(worker, events_.now());
  events_.schedule(held_until_[lane_id] - events_.now(), event::of(event::kHeld, lane_id));
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/link_traffic.h"

namespace tandem::sim {

LinkTraffic::LinkTraffic(const BoundProgram& plan, EventList& events)
    : plan_(plan),
      events_(events),
      flows_(serves_in_turn(*plan.program) ? std::vector<double>{} : plan.capacity) {
  if (serves_in_turn(*plan.program)) queues_.emplace(plan.capacity);
  rate_alone_.reserve(plan.transfers.size());
  for (const Transfer& t : plan.transfers) rate_alone_.push_back(t.rate_alone(plan.capacity));
}

void LinkTraffic::wake() {
  if (flows_.next() >= wake_at_) return;
  wake_at_ = flows_.next();
  events_.schedule_at(wake_at_, event::kFlows);
}

const std::vector<uint64_t>& LinkTraffic::left() {
  left_.clear();
  if (events_.now() < wake_at_) return left_;  // an earlier finish was scheduled meanwhile and has come
  wake_at_ = kNever;
  if (flows_.next() <= events_.now()) flows_.finish(events_.now(), left_);
  if (left_.empty()) wake();
  return left_;
}

}  // namespace tandem::sim

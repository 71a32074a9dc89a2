// SPDX-License-Identifier: Apache-2.0
#pragma once
// The payloads under way in the event evaluator.
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/evaluate/event_list.h"
#include "sim/network/flows.h"
#include "sim/network/queues.h"

namespace tandem::sim {

/// Links share their bandwidth among payloads, or serve one after another (serves_in_turn()). For one thread
/// at a time.
class LinkTraffic {
 public:
  /// Both outlive it.
  LinkTraffic(const BoundProgram& plan, EventList& events);

  /// Whether the payload's rate depends on others.
  static bool shares(const Transfer& t) { return !t.uses.empty() && t.bytes != 0; }
  bool in_turn() const { return queues_.has_value(); }
  /// Where links serve payloads one after another: when one that starts now has left.
  int64_t leaves(const Transfer& t, double factor) {
    return queues_->pass(events_.now(), t.uses, t.cap, t.bytes * factor);
  }
  /// The event `data` comes when the payload has left, and `delay` after that where left() does not tell when
  /// that is. `rate`: alone, of a transfer that does not share.
  void start(const Transfer& t, double rate, double factor, int64_t delay, uint64_t data) {
    if (!shares(t)) {
      events_.schedule(t.payload(rate, factor).ps + delay, data);
    } else if (queues_) {
      events_.schedule(leaves(t, factor) - events_.now() + delay, data);
    } else {
      flows_.start(events_.now(), t.uses, t.cap, t.bytes * factor, data);
    }
  }
  /// The same of BoundProgram::transfers[index].
  void start(int32_t index, double factor, uint64_t data) {
    const Transfer& t = plan_.transfers[static_cast<std::size_t>(index)];
    start(t, rate_alone_[static_cast<std::size_t>(index)], factor, t.delay(factor).ps, data);
  }
  /// Shares the links again, after all that starts or has left now.
  void update() {
    if (!flows_.pending() || events_.more_now()) return;
    flows_.update(events_.now());
    wake();
  }
  /// At event::kFlows: what start() was given for payloads that have left now.
  const std::vector<uint64_t>& left();
  bool under_way() const { return flows_.active() > 0; }

 private:
  void wake();

  const BoundProgram& plan_;
  EventList& events_;
  std::vector<double> rate_alone_;    ///< [transfer]
  std::optional<LinkQueues> queues_;  ///< instead of flows_
  Flows flows_;
  std::vector<uint64_t> left_;
  int64_t wake_at_ = kNever;
};

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The stores of a program in the event evaluator, and what their versions tell.
#include <cstdint>
#include <vector>

#include "sim/evaluate/event_channels.h"
#include "sim/evaluate/event_state.h"
#include "sim/evaluate/recorder.h"
#include "sim/evaluate/stores.h"

namespace tandem::sim {

/// Between peers only the first cache line is used.
struct alignas(64) EventMessage {
  uint32_t channel = 0, key = 0;
  uint32_t sender = 0, receiver = 0;  ///< instances within their roles
  uint32_t number = 0;                ///< of its (sender, channel, key), from 1; a reply has its request's
  uint32_t version = 0, clock = 0, step = 0, next = 0;
  uint32_t request = 0;  ///< of a reply: the message served
  int64_t start = 0;
  int64_t delay = 0;     ///< from when it has left its sender; -1: it has
  Way way;               ///< a reply has its request's
  bool merging = false;  ///< in a store without a lock
  uint32_t thread = 0;   ///< of a message that a server answers: the worker whose thread copies the answer
};

/// Counts staleness and drops for the Trace. For one thread at a time.
class EventStores {
 public:
  /// Both outlive it.
  EventStores(EventState& state, const EventChannels& channels);

  VersionedStore& operator[](uint32_t store) { return stores_[store]; }
  const Store& rules(uint32_t store) const { return state_.program.stores[store]; }
  /// Those of the measured job, summed.
  int64_t versions() const;

  /// The worker has sent gradients to `shards` shards.
  void pushed(uint32_t worker, uint32_t shards) { unhandled_[worker] += shards; }
  /// The store has handled the message, late or not. Appends to `released` what passes its gate by that.
  void apply(EventMessage& m, uint32_t store, bool dropped, std::vector<uint32_t>& released);
  /// The worker's own model, where the store holds those, has been averaged with another's: its next update
  /// is of a gradient on the version after the last time (semantics.md 4.6).
  void joined(uint32_t store, uint32_t worker, uint32_t key);
  /// A lane of the worker has finished. Where it has sent its last gradients and they were handled, it holds
  /// nobody back any more (4.4). Whether they were; appends to `released` as above.
  bool lane_finished(uint32_t worker, std::vector<uint32_t>& released);

 private:
  void count_staleness(int64_t versions, uint32_t worker);
  void leave(uint32_t worker, std::vector<uint32_t>& released);

  EventState& state_;
  const EventChannels& channels_;
  std::vector<VersionedStore> stores_;
  std::vector<std::vector<uint32_t>> own_version_;  ///< [store][worker, key]: of its model when last averaged
  std::vector<uint32_t> unhandled_;  ///< [worker]: its gradients that stores have yet to handle
};

}  // namespace tandem::sim

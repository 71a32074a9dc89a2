// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages and the servers that they go to in the event evaluator.
#include <cstdint>
#include <vector>

#include "sim/evaluate/event_channels.h"
#include "sim/evaluate/event_state.h"
#include "sim/evaluate/event_stores.h"

namespace tandem::sim {

/// For one thread at a time.
class EventMessages {
 public:
  /// Both outlive it. Throws ProgramError: channels without costs of messages.
  EventMessages(EventState& state, OpEnds& ends);

  /// A send or recv of a repeating instance starts.
  void send(uint32_t r, uint32_t instance, int lane, uint32_t op);
  void receive(uint32_t r, uint32_t instance, int lane, uint32_t op);
  /// What a message was scheduled for has come.
  void came(uint32_t slot, uint32_t lane_id);
  /// So has the end of what the server `global` does.
  void service_ended(uint32_t global);
  /// A lane of the worker has finished.
  void lane_finished(uint32_t worker);
  /// EventStores::versions().
  int64_t versions() const { return stores_.versions(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// The one lane of a serving instance that ops hold: its compute lane.
  struct Server {
    int64_t start = 0;
    uint32_t current = 0;                  ///< message served
    uint32_t head = UINT32_MAX, tail = 0;  ///< messages that are ready for it, in order
    bool busy = false, drops = false;      ///< `drops`: the gradient served is late and ignored
    bool answers = false;                  ///< who passes its gate now is answered before anybody else
  };

  // From sender to receiver.
  uint32_t new_message();
  void post(uint32_t slot, uint32_t lane_id, double factor);
  void post_in_turn(uint32_t lane_id, double factor);
  void arrive(uint32_t slot);
  void explain_recv(const EventMessage& m);

  // Through a server.
  uint32_t role_at(const EventMessage& m) const { return channels_[m.channel].to_role; }
  const Op& op_at(const EventMessage& m) const { return state_.roles[role_at(m)].ops[m.step]; }
  uint32_t server_lane(uint32_t global) const { return global * kLanes; }
  void serve(uint32_t slot);
  void pass_gates(EventMessage by);
  void open_gate(uint32_t parked, const EventMessage& by);
  void await_service(uint32_t global, uint32_t slot);
  void begin_service(uint32_t global, uint32_t slot);
  void free_server(uint32_t global);
  void merged_beside(uint32_t slot);
  void reply(uint32_t slot, uint32_t r, uint32_t op, int64_t start);
  void record_service(const EventMessage& m, int64_t start);
  bool copies_answers(uint32_t store, const EventMessage& m) const;
  bool takes_snapshot(const EventMessage& m, const Op& op) const;

  EventState& state_;
  OpEnds& ends_;
  EventChannels channels_;
  EventStores stores_;
  std::vector<EventMessage> messages_;
  std::vector<uint32_t> free_messages_;
  std::vector<uint32_t> in_turn_;   ///< messages that set out together
  std::vector<Server> servers_;     ///< [global instance], unused for repeating ones
  std::vector<uint32_t> released_;  ///< messages that may pass their gates
  std::vector<uint32_t> answered_;  ///< messages, in the order in which a server's gate let them pass
};

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reference evaluator's machinery; run_events() is its only user.
//
// Events happen in the order (time, round, lane, order of scheduling): a round is all that is pending for a
// time; what its events schedule for the very same time makes the next round; a lane's number grows with
// role, instance and lane. This is the canonical order in which ties of arrival are broken.
#include <bit>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/bound/groups.h"
#include "sim/evaluate/core_turns.h"
#include "sim/evaluate/host_clock.h"
#include "sim/evaluate/inbox.h"
#include "sim/evaluate/recorder.h"
#include "sim/evaluate/stores.h"
#include "sim/evaluate/trace.h"
#include "sim/network/flows.h"
#include "sim/network/queue.h"
#include "sim/network/queues.h"

namespace tandem::sim {

/// For one thread at a time.
class EventEngine {
 public:
  EventEngine(const BoundProgram& plan, const EvaluateOptions& options);
  Trace run();

 private:
  enum class State : uint8_t { blocked, running, waiting, finished };
  /// A lane of a repeating instance: its ops before (iteration, op) are done.
  struct LaneState {
    int64_t start = 0;  ///< of the op that runs
    int64_t ready = 0;  ///< the same, without waiting for other members of a collective
    uint32_t iteration = 0;
    uint32_t op = 0;       ///< in the role's list; its end, after the lane's last
    uint32_t sending = 0;  ///< messages of a send that have not left yet; of a recv that waits its port
    State state = State::blocked;
  };
  /// The one lane of a serving instance that ops hold: its compute lane.
  struct Server {
    int64_t start = 0;
    uint32_t current = 0;                  ///< message served
    uint32_t head = UINT32_MAX, tail = 0;  ///< messages that are ready for it, in order
    bool busy = false, drops = false;      ///< `drops`: the gradient served is late and ignored
    bool answers = false;                  ///< who passes its gate now is answered before anybody else
  };
  /// What servers take of the device on which a repeating instance computes.
  struct TakenDevice {
    int64_t until = 0;  ///< when those that have come are done
    int64_t owed = 0;   ///< by which the op that runs now ends later
    int64_t spare = 0;  ///< of that op, when the device waits for the host
  };
  struct RoleInfo {
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
  };
  /// How many iterations the workers make (semantics.md 1.7). Those of a group meet in collectives.
  struct Iterations {
    bool free_running = false;
    std::optional<Groups> groups;
    std::vector<uint32_t> begun;  ///< [group], of a free-running program
    int64_t open = 0;             ///< iterations that no group has begun yet
    std::vector<uint32_t> limit;  ///< [worker]; kNone: not known yet
  };
  struct Rendezvous {
    std::optional<Groups> groups;
    std::vector<uint32_t> arrived;  ///< [group]
    std::vector<uint32_t> last;     ///< [group]: who came last, the lowest of several
  };
  /// Between peers only the first cache line is used.
  struct alignas(64) Message {
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
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kWake = UINT64_MAX;
  static constexpr uint32_t kCoreLane = UINT32_MAX - 1;  ///< in a lane's place: the slot is a processor
  static constexpr uint32_t kHeldLane = UINT32_MAX - 2;  ///< the slot is a lane whose send waits for one

  // Lanes of repeating instances (events.cpp).
  void build_role(uint32_t r);
  void begin();
  void dispatch(uint64_t data);
  void op_ended(uint32_t lane_id);
  void complete(uint32_t r, uint32_t instance, int lane, int64_t start, uint32_t last = 0);
  void try_lane(uint32_t r, uint32_t instance, int lane);
  static bool ready(const RoleInfo& info, const LaneState* lanes, uint32_t iteration, const Op& op);
  void wrap(uint32_t r, uint32_t instance);
  void count_iterations();
  void begin_iteration(uint32_t worker, uint32_t iteration);
  bool prolong();
  bool steady(int64_t first, int64_t ended) const;
  uint32_t limit(uint32_t r, uint32_t instance) const;
  void finish_lane(uint32_t r, uint32_t instance, int lane);
  void start_op(uint32_t r, uint32_t instance, int lane, uint32_t op);
  Rendezvous& meeting_of(uint32_t r, const Op& op);
  void start_collective(uint32_t r, uint32_t instance, uint32_t op);
  /// Does its rate depend on others?
  static bool shares(const Transfer& t) { return !t.uses.empty() && t.bytes != 0; }
  void start_transfer(const Transfer& t, double rate, double factor, int64_t delay, uint64_t data);
  void schedule(int64_t after, uint64_t data);
  void look_at_core(uint32_t core);
  void wake_core(uint32_t core);
  void work_in_turn(uint32_t worker, uint32_t lane_id, int64_t work);
  void leave_core(uint32_t worker);
  bool hold_send(uint32_t worker, uint32_t lane_id);
  void let_send(uint32_t lane_id);
  void sort_batch();
  template <typename F>
  static void each_lane(const RoleInfo& info, F f) {
    for (unsigned lanes = info.lanes; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
  }
  void wake_flows();
  double compute_factor(uint32_t r, uint32_t instance, uint32_t iteration, uint32_t op);
  int64_t compute_time(uint32_t r, uint32_t instance, uint32_t iteration, uint32_t op);
  uint32_t class_of(const RoleInfo& info, uint32_t instance) const;
  std::pair<int32_t, double> transfer_of(uint32_t r, uint32_t instance, uint32_t iteration,
                                         uint32_t op) const;
  uint32_t role_of(uint32_t global) const { return role_of_[global]; }
  void check_finished() const;

  // Messages and servers (event_messages.cpp).
  void build_messages();
  void send(uint32_t r, uint32_t instance, int lane, uint32_t op);
  void post(uint32_t slot, uint32_t lane_id, double factor);
  void post_in_turn(uint32_t lane_id, double factor);
  void message_event(uint32_t slot, uint32_t lane_id);
  void arrive(uint32_t slot);
  void joined(uint32_t store, uint32_t worker, uint32_t key);
  /// The workers have made the iterations before those that count, on average.
  bool run_in() const {
    return trace_.worker_iterations >= int64_t{options_.run_in} * int64_t{roles_[0].count};
  }
  void count_staleness(int64_t versions, uint32_t worker);
  void explain_recv(const Message& m, bool reply);
  void open_gate(uint32_t parked, const Message& by, uint32_t r);
  void receive(uint32_t r, uint32_t instance, int lane, uint32_t op);
  void serve(uint32_t slot);
  void take_device(uint32_t r, uint32_t instance, int64_t time);
  bool pays_back(uint32_t lane_id);
  void record_service(const Message& m, uint32_t r, int64_t start);
  bool copies_answers(uint32_t store, const Message& m) const;
  bool takes_snapshot(const Message& m, const Op& op) const;
  void await_service(uint32_t global, uint32_t slot);
  void begin_service(uint32_t global, uint32_t slot);
  void service_ended(uint32_t global);
  void free_server(uint32_t global);
  bool merges_beside(const Op& op) const {
    return op.kind == OpKind::apply && !program_.stores[op.what].locked;
  }
  void merged_beside(uint32_t slot);
  void apply(uint32_t slot, const Op& op, bool dropped);
  void leave_stores(uint32_t worker);
  bool pushes(uint32_t channel) const;
  void pass_gates(Message by);
  void reply(uint32_t slot, uint32_t r, uint32_t op, int64_t start);
  uint32_t new_message();

  const BoundProgram& plan_;
  const Program& program_;
  EvaluateOptions options_;
  Trace trace_;
  Recorder recorder_;
  bool calm_;  ///< no disturbance
  int64_t now_ = 0;
  MonotoneQueue queue_;
  std::vector<MonotoneQueue::Item> batch_;
  std::optional<LinkQueues> queues_;  ///< instead of flows_, where serves_in_turn()
  Flows flows_;
  std::vector<uint64_t> flown_;
  int64_t wake_at_ = kNever;
  std::optional<CoreTurns> turns_;   ///< where workers share processors
  std::vector<int64_t> core_wakes_;  ///< [processor]: when it is looked at
  std::vector<uint32_t> computing_;  ///< [worker]: lane whose op has its work on the processor
  std::vector<int64_t> held_until_;  ///< [lane of a worker]: its send waits for a turn; kNever: none does
  int64_t open_lanes_ = 0;           ///< of the measured job, not finished
  std::vector<double> rate_alone_;   ///< [transfer]
  std::vector<RoleInfo> roles_;
  std::vector<uint32_t> role_of_;    ///< [global instance]
  std::vector<LaneState> lanes_;     ///< [global instance * kLanes + lane]
  std::vector<uint64_t> weight_;     ///< [global instance], Recorder's
  std::vector<uint32_t> completed_;  ///< [worker]: iterations
  Iterations iterations_;
  std::vector<std::pair<uint32_t, double>> iteration_factor_;  ///< [global instance]: of the iteration named
  std::vector<int64_t> waited_;  ///< [global instance]: end of the compute lane's iteration before
  std::vector<HostClock> host_;  ///< [global instance]
  std::vector<std::vector<Rendezvous>> rendezvous_;  ///< [role]: by axes and lane
  std::vector<std::vector<uint32_t>> shared_;  ///< [role][collective * kLanes + lane]: index into rendezvous_

  std::vector<VersionedStore> stores_;
  std::vector<std::vector<uint32_t>> own_version_;  ///< [store][worker, key]: of its model when last averaged
  std::vector<std::optional<Inbox>> inboxes_;       ///< [channel], where it leads to a repeating role
  std::vector<int32_t> pull_of_;              ///< [channel]: whose inbox has the versions sent along, -1 none
  std::vector<int32_t> store_of_;             ///< [channel]: store that stamps or receives it, -1 none
  std::vector<std::size_t> sent_at_;          ///< [channel]: where `sent_` has its senders
  std::vector<uint32_t> port_at_;             ///< [channel]: port of its first key
  std::vector<uint32_t> sent_;                ///< [sender * keys + key] of each channel
  std::vector<std::vector<uint32_t>> heard_;  ///< [channel][receiver * keys + key], sampled_peer only
  std::vector<TakenDevice> taken_;            ///< [global instance]; empty: no servers are on devices
  std::vector<Server> servers_;               ///< [global instance], unused for repeating ones
  std::vector<Message> messages_;
  std::vector<uint32_t> free_messages_, released_, in_turn_;
  std::vector<uint32_t> answered_;   ///< messages, in the order in which a server's gate let them pass
  std::vector<uint32_t> unhandled_;  ///< [worker]: its gradients that stores have yet to handle
};

}  // namespace tandem::sim

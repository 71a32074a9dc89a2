// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_messages.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tandem::sim {

EventMessages::EventMessages(EventState& state, OpEnds& ends)
    : state_(state), ends_(ends), channels_(state.plan, state.roles), stores_(state, channels_) {
  if (channels_.count() == 0) return;
  if (state.plan.messages == nullptr)
    throw ProgramError("a program with channels needs the costs of their messages");
  servers_.resize(state.roles.instances());
}

uint32_t EventMessages::new_message() {
  if (free_messages_.empty()) {
    if (messages_.size() >= kNone - 1) throw InputError("more than 2^32 messages in flight");
    free_messages_.push_back(static_cast<uint32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const uint32_t slot = free_messages_.back();
  free_messages_.pop_back();
  EventMessage& m = messages_[slot];  // whoever looks at the way writes it first
  m.version = m.clock = m.step = m.next = 0;
  return slot;
}

void EventMessages::send(uint32_t r, uint32_t instance, int lane, uint32_t index) {
  const EventRole& role = state_.roles[r];
  const Op& op = role.ops[index];
  const uint32_t lane_id = (role.base + instance) * kLanes + static_cast<uint32_t>(lane);
  const uint32_t iteration = state_.lanes[lane_id].iteration;
  const Instances to = channels_.receivers(op.what, op.key, instance, iteration);
  const uint32_t number = channels_.next_number(op.what, op.key, instance);
  if (channels_.pushes(op.what)) stores_.pushed(instance, to.count);
  const double factor = state_.times.transfer_factor({r, instance, iteration, index});
  const bool in_turn = state_.traffic.in_turn();
  state_.lanes[lane_id].sending = to.count;
  for (uint32_t k = 0; k < to.count; ++k) {
    const uint32_t slot = new_message();
    EventMessage& m = messages_[slot];
    m.channel = op.what;
    m.key = op.key;
    m.sender = instance;
    // If links serve one transfer at a time, every sender starts at another receiver, lest all queue for the
    // first.
    m.receiver = to.first + (in_turn && to.count > 1 ? (k + instance) % to.count : k);
    m.number = number;
    m.request = kNone;
    m.start = 0;
    m.way.sent = state_.now();
    m.version = channels_.version(op.what, op.key, instance, m.receiver);
    if (in_turn) {
      in_turn_.push_back(slot);
    } else {
      post(slot, lane_id, factor);
    }
  }
  if (in_turn) post_in_turn(lane_id, factor);
}

/// Messages that set out together share the way: as under fair sharing, all have left when the last has.
void EventMessages::post_in_turn(uint32_t lane_id, double factor) {
  const int64_t now = state_.now();
  int64_t end = now;
  for (const uint32_t slot : in_turn_) {
    EventMessage& m = messages_[slot];
    const Transfer& t = state_.plan.messages->message(m.channel, m.key, m.sender, m.receiver);
    m.delay = t.delay(factor).ps;
    state_.recorder.message(t);
    end = std::max(end, state_.traffic.leaves(t, factor));
  }
  for (const uint32_t slot : in_turn_) state_.events.schedule(end - now, event::of(lane_id, slot + 1));
  in_turn_.clear();
}

void EventMessages::post(uint32_t slot, uint32_t lane_id, double factor) {
  EventMessage& m = messages_[slot];
  const Transfer& t = state_.plan.messages->message(m.channel, m.key, m.sender, m.receiver);
  m.delay = t.delay(factor).ps;
  state_.recorder.message(t);
  const double rate = LinkTraffic::shares(t) ? 0 : t.rate_alone(state_.plan.capacity);
  state_.traffic.start(t, rate, factor, 0, event::of(lane_id, slot + 1));
}

/// The payload has left its sender, or the message is there.
void EventMessages::came(uint32_t slot, uint32_t lane_id) {
  EventMessage& m = messages_[slot];
  if (m.merging) return merged_beside(slot);
  if (m.delay < 0) return arrive(slot);
  state_.events.schedule(std::exchange(m.delay, -1), event::of(lane_id, slot + 1));
  if (m.request == kNone) {
    EventLane& lane = state_.lanes[lane_id];
    if (--lane.sending > 0) return;
    return ends_.complete(state_.roles.of_lane(lane_id), state_.roles.instance_of(lane_id),
                          static_cast<int>(lane_id % kLanes), lane.start);
  }
  const uint32_t request = m.request;
  record_service(messages_[request], m.start);
  ++messages_[request].step;
  serve(request);
}

void EventMessages::arrive(uint32_t slot) {
  EventMessage& m = messages_[slot];
  const EventRole& role = state_.roles[role_at(m)];
  if (role.serves) {
    const int64_t now = state_.now();
    m.way = {m.way.sent, now, now, now, now, now, 0, 0};
    m.thread = m.sender;
    return serve(slot);
  }
  channels_.arrive(m.channel, m.key, m.sender, m.receiver, m.number, m.version);
  if (m.receiver == 0 && state_.recorder.tracks(role_at(m))) explain_recv(m);
  const uint32_t channel = m.channel, key = m.key, instance = m.receiver;
  if (channels_.replies(channel) && channels_.store(channel) >= 0)
    stores_.joined(static_cast<uint32_t>(channels_.store(channel)), instance, key);
  free_messages_.push_back(slot);
  Inbox& inbox = channels_.inbox(channel);
  for (unsigned lanes = role.lanes; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const EventLane& state = state_.lanes_of(role.base + instance)[lane];
    if (state.state != EventLane::State::waiting) continue;
    if (state.sending != channels_.port(channel, key) || role.ops[state.op].kind != OpKind::recv ||
        !inbox.ready(instance, key))
      continue;
    inbox.take(instance, key);
    return ends_.complete(channels_[channel].to_role, instance, lane, state.start);
  }
}

/// A recv of the first worker that waits now is ended by `m`, if by any message.
void EventMessages::explain_recv(const EventMessage& m) {
  if (channels_.replies(m.channel)) {
    state_.recorder.replied(role_at(m), m.way);
  } else {
    state_.recorder.heard(role_at(m), m.sender, m.way.sent);
  }
}

void EventMessages::receive(uint32_t r, uint32_t instance, int lane, uint32_t index) {
  const EventRole& role = state_.roles[r];
  const Op& op = role.ops[index];
  const uint32_t lane_id = (role.base + instance) * kLanes + static_cast<uint32_t>(lane);
  Inbox& inbox = channels_.inbox(op.what);
  if (!inbox.ready(instance, op.key)) {
    state_.lanes[lane_id].state = EventLane::State::waiting;
    state_.lanes[lane_id].sending = channels_.port(op.what, op.key);
    return;
  }
  inbox.take(instance, op.key);
  state_.events.schedule(0, event::of(lane_id));
}

/// The op that `m` is at ends now. The timeline keeps what the first workers asked for only.
void EventMessages::record_service(const EventMessage& m, int64_t start) {
  const uint32_t iteration = m.number - 1, r = role_at(m);
  const int64_t now = state_.now();
  Recorder& recorder = state_.recorder;
  const uint64_t mark = Recorder::mark(Recorder::stem(r, iteration, m.step), start, now);
  recorder.hash(mark * state_.roles.weight(state_.roles[r].base + m.receiver), 1);
  recorder.makespan(now);
  if (m.receiver < recorder.kept() && m.sender < recorder.kept())
    recorder.keep(r, m.receiver, iteration, m.step, {start, start, now, 0}, 1, m.sender);
}

/// Takes a message through its role's ops as far as it gets without waiting.
void EventMessages::serve(uint32_t slot) {
  const uint32_t r = role_at(messages_[slot]);
  const EventRole& role = state_.roles[r];
  const uint32_t global = role.base + messages_[slot].receiver;
  while (messages_[slot].step < role.ops.size()) {
    EventMessage& m = messages_[slot];
    const Op& op = role.ops[m.step];
    if (op.kind == OpKind::send) {
      if (!takes_snapshot(m, op)) return reply(slot, r, m.step, state_.now());
      const Store& store = stores_.rules(static_cast<uint32_t>(channels_.store(op.what)));
      return await_service(state_.roles[store.role].base + m.receiver, slot);
    }
    if (op.kind == OpKind::gate) {
      VersionedStore& store = stores_[op.what];
      if (!store.open(m.receiver, m.key, m.sender, m.clock)) {
        m.start = state_.now();
        state_.processors.leave(m.sender);
        return store.park(m.receiver, m.key, m.sender, m.clock, slot);
      }
      record_service(m, state_.now());
      ++m.step;
      continue;
    }
    if (op.kind != OpKind::apply || stores_.rules(op.what).locked) return await_service(global, slot);
    m.merging = true;
    m.start = state_.now();
    return state_.events.schedule(state_.plan.messages->apply(op.what, m.key, m.receiver).ps,
                                  event::of(server_lane(global), slot + 1));
  }
  free_messages_.push_back(slot);
}

/// Do answers from the store hold it while they are copied?
bool EventMessages::copies_answers(uint32_t store, const EventMessage& m) const {
  return state_.plan.messages->snapshot(store, m.key, m.receiver).ps > 0;
}

bool EventMessages::takes_snapshot(const EventMessage& m, const Op& op) const {
  const int32_t store = channels_.store(op.what);
  return store >= 0 && copies_answers(static_cast<uint32_t>(store), m);
}

void EventMessages::await_service(uint32_t global, uint32_t slot) {
  Server& server = servers_[global];
  EventMessage& m = messages_[slot];
  m.next = kNone;
  if (server.answers) {
    answered_.push_back(slot);
  } else if (server.busy) {
    state_.processors.leave(m.sender);
    (server.head == kNone ? server.head : messages_[server.tail].next) = slot;
    server.tail = slot;
  } else {
    begin_service(global, slot);
  }
}

void EventMessages::begin_service(uint32_t global, uint32_t slot) {
  const EventMessage& m = messages_[slot];
  const uint32_t r = role_at(m);
  const EventRole& role = state_.roles[r];
  const Op& op = op_at(m);
  Server& server = servers_[global];
  server.busy = true;
  server.current = slot;
  server.start = state_.now();
  Time t;
  if (op.kind == OpKind::apply) {
    server.drops = stores_[op.what].late(m.receiver, m.key, m.sender, m.version);
    if (!server.drops) t = state_.plan.messages->apply(op.what, m.key, m.receiver);
  } else if (op.kind == OpKind::send) {
    const auto store = static_cast<uint32_t>(channels_.store(op.what));
    t = state_.plan.messages->snapshot(store, m.key, m.receiver);
  } else {
    t = state_.times.service(r, m.receiver, m.step);
  }
  // Where a worker is one thread it does this itself, and all others wait until it has its processor.
  const uint32_t from = channels_[m.channel].from_role;
  if (state_.processors.one_thread() && role.count == 1 && from == 0)
    return state_.processors.work(m.thread, server_lane(global), t.ps);
  if (role.costs->on_devices) {
    const Channel& served = channels_[static_cast<uint32_t>(role.role->on_channel)];
    const uint32_t device = state_.roles[served.from_role].base + m.receiver;
    state_.times.take_device(device, t.ps, state_.now(), state_.computes(device));
  }
  state_.events.schedule(t.ps, event::of(server_lane(global)));
}

void EventMessages::service_ended(uint32_t global) {
  Server& server = servers_[global];
  const uint32_t slot = server.current;
  EventMessage& m = messages_[slot];
  const Op& op = op_at(m);
  if (op.kind == OpKind::send) {
    reply(slot, role_at(m), m.step, server.start);
    return free_server(global);
  }
  record_service(m, server.start);
  released_.clear();
  if (op.kind == OpKind::apply) stores_.apply(m, op.what, server.drops, released_);
  server.answers = op.kind == OpKind::apply && copies_answers(op.what, m);
  if (!server.answers) free_server(global);
  pass_gates(messages_[slot]);  // in the order they came, then this one
  ++messages_[slot].step;
  serve(slot);
  if (!std::exchange(server.answers, false)) return;
  for (; !answered_.empty(); answered_.pop_back()) {  // the last first
    const uint32_t answer = answered_.back();
    if (server.head == kNone) server.tail = answer;
    messages_[answer].next = std::exchange(server.head, answer);
  }
  free_server(global);
}

/// For the next in line.
void EventMessages::free_server(uint32_t global) {
  Server& server = servers_[global];
  server.busy = false;
  if (server.head == kNone) return;
  const uint32_t next = server.head;
  server.head = messages_[next].next;
  begin_service(global, next);
}

/// Of a store in which nobody waits for another.
void EventMessages::merged_beside(uint32_t slot) {
  EventMessage& m = messages_[slot];
  m.merging = false;
  record_service(m, m.start);
  released_.clear();
  stores_.apply(m, op_at(m).what, false, released_);
  ++m.step;
  serve(slot);
}

void EventMessages::lane_finished(uint32_t worker) {
  if (!stores_.lane_finished(worker, released_)) return;
  EventMessage last;
  last.sender = worker;
  last.way.sent = last.way.arrived = state_.now();
  pass_gates(last);
}

/// What was parked goes on, thanks to `by`.
void EventMessages::pass_gates(EventMessage by) {
  const std::vector<uint32_t> opened(released_);
  released_.clear();
  for (const uint32_t parked : opened) open_gate(parked, by);
}

/// `by` was applied, which lets the message `parked` pass its gate: before, its worker had not sent it, or it
/// was on its way, or waited for the server's processor.
void EventMessages::open_gate(uint32_t parked, const EventMessage& by) {
  EventMessage& p = messages_[parked];
  record_service(p, p.start);
  p.way.parked = p.start;
  p.way.late = std::clamp(by.way.sent, p.start, state_.now());
  p.way.flown = std::clamp(by.way.arrived, p.way.late, state_.now());
  p.way.opened = state_.now();
  p.way.behind = by.sender;
  p.thread = by.sender;
  ++p.step;
  serve(parked);
}

/// `start`: of what the server does for it.
void EventMessages::reply(uint32_t request, uint32_t r, uint32_t index, int64_t start) {
  const uint32_t slot = new_message();
  const EventMessage& served = messages_[request];
  const EventRole& role = state_.roles[r];
  EventMessage& m = messages_[slot];
  m.channel = role.ops[index].what;
  m.key = served.key;
  m.sender = served.receiver;
  m.receiver = served.sender;
  m.number = served.number;
  m.request = request;
  m.start = start;
  m.way = served.way;
  m.way.replied = state_.now();
  if (const int32_t store = channels_.store(m.channel); store >= 0)
    m.version = stores_[static_cast<uint32_t>(store)].version(m.sender, m.key, m.receiver);
  // One draw per request: (shard, number) and the worker that asked.
  const double factor =
      state_.times.transfer_factor({r, m.sender, m.number, index ^ static_cast<uint32_t>(mix64(m.receiver))});
  const uint32_t lane_id = (role.base + m.sender) * kLanes + static_cast<uint32_t>(role.ops[index].lane);
  post(slot, lane_id, factor);
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
// Channels, servers and stores of the event evaluator.
#include <algorithm>
#include <bit>
#include <ranges>
#include <utility>

#include "sim/evaluate/event_engine.h"

namespace tandem::sim {

namespace {
std::size_t keys_of(const Channel& channel) { return channel.key_bytes.size(); }
}  // namespace

void EventEngine::build_messages() {
  const auto& channels = program_.channels;
  if (channels.empty()) return;
  if (plan_.messages == nullptr)
    throw ProgramError("a program with channels needs the costs of their messages");
  servers_.resize(weight_.size());
  if (std::any_of(roles_.begin(), roles_.end(), [](const RoleInfo& info) { return info.costs->on_devices; }))
    taken_.resize(weight_.size());
  unhandled_.assign(roles_[0].count, 0);
  if (!program_.stores.empty()) trace_.staleness_by_worker.resize(std::min<uint32_t>(64, roles_[0].count));
  for (const Store& s : program_.stores) {
    const Channel& in = channels[static_cast<std::size_t>(program_.roles[s.role].on_channel)];
    stores_.emplace_back(s, holders(in, 0, roles_[s.role].count).count, static_cast<uint32_t>(keys_of(in)),
                         roles_[in.from_role].count);
    own_version_.emplace_back(s.own_models ? keys_of(in) * roles_[in.from_role].count : 0);
  }
  inboxes_.resize(channels.size());
  pull_of_.assign(channels.size(), -1);
  store_of_.assign(channels.size(), -1);
  sent_at_.assign(channels.size(), 0);
  port_at_.assign(channels.size(), 0);
  heard_.resize(channels.size());
  for (uint32_t c = 0; c < channels.size(); ++c) {
    const Channel& ch = channels[c];
    const auto keys = static_cast<uint32_t>(keys_of(ch));
    const bool replies = ch.address == Address::reply;
    const uint32_t holder = replies ? ch.from_role : ch.to_role;
    for (std::size_t s = program_.stores.size(); s-- > 0;) {
      const Store& store = program_.stores[s];
      if ((replies ? store.answers() : store.role) == holder) store_of_[c] = static_cast<int32_t>(s);
    }
    if (c > 0) port_at_[c] = port_at_[c - 1] + static_cast<uint32_t>(keys_of(channels[c - 1]));
    sent_at_[c] = sent_.size();
    if (!replies) sent_.resize(sent_.size() + std::size_t{roles_[ch.from_role].count} * keys, 0);
    if (roles_[ch.to_role].serves) continue;
    uint32_t sources = 1;
    if (replies) {
      const auto asked = static_cast<std::size_t>(roles_[ch.from_role].role->on_channel);
      if (channels[asked].address == Address::shards)
        sources = holders(channels[asked], 0, roles_[ch.from_role].count).count;
    }
    inboxes_[c].emplace(roles_[ch.to_role].count, keys, sources);
    if (ch.address == Address::sampled_peer || ch.address == Address::next_peer)
      heard_[c].assign(std::size_t{roles_[ch.to_role].count} * keys, 0);
  }
  // A gradient carries the version that came with the replies of the store it goes to.
  for (uint32_t c = 0; c < channels.size(); ++c) {
    if (channels[c].address == Address::reply || store_of_[c] < 0) continue;
    for (uint32_t back = 0; back < channels.size(); ++back) {
      if (channels[back].address == Address::reply && store_of_[back] == store_of_[c] && inboxes_[back] &&
          pull_of_[c] < 0) {
        pull_of_[c] = static_cast<int32_t>(back);
      }
    }
  }
}

uint32_t EventEngine::new_message() {
  if (free_messages_.empty()) {
    if (messages_.size() >= kNone - 1) throw InputError("more than 2^32 messages in flight");
    free_messages_.push_back(static_cast<uint32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const uint32_t slot = free_messages_.back();
  free_messages_.pop_back();
  Message& m = messages_[slot];  // whoever looks at the way writes it first
  m.version = m.clock = m.step = m.next = 0;
  return slot;
}

void EventEngine::send(uint32_t r, uint32_t instance, int lane, uint32_t index) {
  const RoleInfo& info = roles_[r];
  const Op& op = info.ops[index];
  const Channel& channel = program_.channels[op.what];
  const uint32_t lane_id = (info.base + instance) * kLanes + static_cast<uint32_t>(lane);
  const uint32_t iteration = lanes_[lane_id].iteration;
  const uint32_t receivers = roles_[channel.to_role].count;
  uint32_t first = instance, count = 1;
  if (channel.address == Address::shards) {
    const Instances to = holders(channel, op.key, receivers);
    first = to.first;
    count = to.count;
  } else if (channel.address == Address::sampled_peer || channel.address == Address::next_peer) {
    first = peer_of(channel.address, instance, receivers, plan_.seed, iteration);
  }
  const uint32_t number = ++sent_[sent_at_[op.what] + instance * keys_of(channel) + op.key];
  if (pushes(op.what)) unhandled_[instance] += count;
  const double factor = calm_ ? 1.0 : plan_.transfer_factor(r, instance, iteration, index);
  lanes_[lane_id].sending = count;
  for (uint32_t k = 0; k < count; ++k) {
    // If links serve one transfer at a time, every sender starts at another receiver, lest all queue for the
    // first.
    const uint32_t to = first + (queues_ && count > 1 ? (k + instance) % count : k);
    const uint32_t slot = new_message();
    Message& m = messages_[slot];
    m.channel = op.what;
    m.key = op.key;
    m.sender = instance;
    m.receiver = to;
    m.number = number;
    m.request = kNone;
    m.start = 0;
    m.way.sent = now_;
    if (pull_of_[op.what] >= 0) {
      const Inbox& pulled = *inboxes_[static_cast<std::size_t>(pull_of_[op.what])];
      m.version = pulled.version(instance, op.key, pulled.sources() > 1 ? to : 0);
    }
    if (queues_) {
      in_turn_.push_back(slot);
    } else {
      post(slot, lane_id, factor);
    }
  }
  if (queues_) post_in_turn(lane_id, factor);
}

/// Messages that set out together share the way: as under fair sharing, all have left when the last has.
void EventEngine::post_in_turn(uint32_t lane_id, double factor) {
  int64_t end = now_;
  for (const uint32_t slot : in_turn_) {
    Message& m = messages_[slot];
    const Transfer& t = plan_.messages->message(m.channel, m.key, m.sender, m.receiver);
    m.delay = t.delay(factor).ps;
    recorder_.message(t);
    end = std::max(end, queues_->pass(now_, t.uses, t.cap, t.bytes * factor));
  }
  for (const uint32_t slot : in_turn_) schedule(end - now_, uint64_t{lane_id} << 32 | (slot + 1));
  in_turn_.clear();
}

void EventEngine::post(uint32_t slot, uint32_t lane_id, double factor) {
  Message& m = messages_[slot];
  const Transfer& t = plan_.messages->message(m.channel, m.key, m.sender, m.receiver);
  m.delay = t.delay(factor).ps;
  recorder_.message(t);
  const double rate = shares(t) ? 0 : t.rate_alone(plan_.capacity);
  start_transfer(t, rate, factor, 0, uint64_t{lane_id} << 32 | (slot + 1));
}

/// The payload has left its sender, or the message is there.
void EventEngine::message_event(uint32_t slot, uint32_t lane_id) {
  Message& m = messages_[slot];
  if (m.merging) return merged_beside(slot);
  if (m.delay < 0) return arrive(slot);
  schedule(std::exchange(m.delay, -1), uint64_t{lane_id} << 32 | (slot + 1));
  if (m.request == kNone) {
    LaneState& lane = lanes_[lane_id];
    if (--lane.sending > 0) return;
    const uint32_t r = role_of(lane_id / kLanes);
    complete(r, lane_id / kLanes - roles_[r].base, static_cast<int>(lane_id % kLanes), lane.start);
    return;
  }
  const uint32_t request = m.request;
  const uint32_t r = role_of(lane_id / kLanes);
  record_service(messages_[request], r, m.start);
  ++messages_[request].step;
  serve(request);
}

void EventEngine::arrive(uint32_t slot) {
  Message& m = messages_[slot];
  const uint32_t to_role = program_.channels[m.channel].to_role;
  if (roles_[to_role].serves) {
    m.way = {m.way.sent, now_, now_, now_, now_, now_, 0, 0};
    m.thread = m.sender;
    return serve(slot);
  }
  const bool replies = program_.channels[m.channel].address == Address::reply;
  uint32_t number = m.number;
  if (!heard_[m.channel].empty())
    number = ++heard_[m.channel][m.receiver * keys_of(program_.channels[m.channel]) + m.key];
  Inbox& inbox = *inboxes_[m.channel];
  const uint32_t source = replies && inbox.sources() > 1 ? m.sender : 0;
  inbox.arrive(m.receiver, m.key, source, number, m.version);
  const uint32_t channel = m.channel, key = m.key, instance = m.receiver;
  if (instance == 0 && recorder_.tracks(to_role)) explain_recv(m, replies);
  if (replies && store_of_[channel] >= 0) joined(static_cast<uint32_t>(store_of_[channel]), instance, key);
  free_messages_.push_back(slot);
  const RoleInfo& info = roles_[to_role];
  for (unsigned lanes = info.lanes; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const LaneState& state =
        lanes_[(info.base + instance) * std::size_t{kLanes} + static_cast<std::size_t>(lane)];
    if (state.state != State::waiting) continue;
    if (state.sending != port_at_[channel] + key || info.ops[state.op].kind != OpKind::recv ||
        !inbox.ready(instance, key))
      continue;
    inbox.take(instance, key);
    return complete(to_role, instance, lane, state.start);
  }
}

/// The worker's own model, where the store holds those, has been averaged with another's: its next update is
/// of a gradient on the version after the last time (semantics.md 4.6).
void EventEngine::joined(uint32_t s, uint32_t worker, uint32_t key) {
  const Store& rules = program_.stores[s];
  if (!rules.own_models) return;
  VersionedStore& store = stores_[s];
  store.merge(worker, key, worker);
  const uint32_t now = store.version(worker, key, worker);
  uint32_t& read = own_version_[s].at(
      worker * keys_of(program_.channels[static_cast<std::size_t>(program_.roles[rules.role].on_channel)]) +
      key);
  if (plan_.measured(rules.role)) count_staleness(now - read, worker);
  read = now;
}

void EventEngine::count_staleness(int64_t versions, uint32_t worker) {
  if (!run_in()) return;
  trace_.staleness.add(versions);
  if (worker < trace_.staleness_by_worker.size()) trace_.staleness_by_worker[worker].add(versions);
}

/// A recv of the first worker that waits now is ended by `m`, if by any message.
void EventEngine::explain_recv(const Message& m, bool reply) {
  const uint32_t to_role = program_.channels[m.channel].to_role;
  if (reply) {
    recorder_.replied(to_role, m.way);
  } else {
    recorder_.heard(to_role, m.sender, m.way.sent);
  }
}

/// `by` was applied, which lets the message `parked` pass its gate: before, its worker had not sent it, or it
/// was on its way, or waited for the server's processor.
void EventEngine::open_gate(uint32_t parked, const Message& by, uint32_t r) {
  Message& p = messages_[parked];
  record_service(p, r, p.start);
  p.way.parked = p.start;
  p.way.late = std::clamp(by.way.sent, p.start, now_);
  p.way.flown = std::clamp(by.way.arrived, p.way.late, now_);
  p.way.opened = now_;
  p.way.behind = by.sender;
  p.thread = by.sender;
  ++p.step;
  serve(parked);
}

void EventEngine::receive(uint32_t r, uint32_t instance, int lane, uint32_t index) {
  const Op& op = roles_[r].ops[index];
  Inbox& inbox = *inboxes_[op.what];
  const uint32_t lane_id = (roles_[r].base + instance) * kLanes + static_cast<uint32_t>(lane);
  if (!inbox.ready(instance, op.key)) {
    lanes_[lane_id].state = State::waiting;
    lanes_[lane_id].sending = port_at_[op.what] + op.key;
    return;
  }
  inbox.take(instance, op.key);
  schedule(0, uint64_t{lane_id} << 32);
}

/// The op that `m` is at ends now. The timeline keeps what the first workers asked for only.
void EventEngine::record_service(const Message& m, uint32_t r, int64_t start) {
  const uint32_t iteration = m.number - 1;
  const uint64_t mark = Recorder::mark(Recorder::stem(r, iteration, m.step), start, now_);
  recorder_.hash(mark * weight_[roles_[r].base + m.receiver], 1);
  recorder_.makespan(now_);
  if (m.receiver < recorder_.kept() && m.sender < recorder_.kept()) {
    recorder_.keep(r, m.receiver, iteration, m.step, {start, start, now_, 0}, 1, m.sender);
  }
}

/// Takes a message through its role's ops as far as it gets without waiting.
void EventEngine::serve(uint32_t slot) {
  const uint32_t r = program_.channels[messages_[slot].channel].to_role;
  const RoleInfo& info = roles_[r];
  const uint32_t global = info.base + messages_[slot].receiver;
  while (messages_[slot].step < info.ops.size()) {
    Message& m = messages_[slot];
    const Op& op = info.ops[m.step];
    if (op.kind == OpKind::send) {
      if (!takes_snapshot(m, op)) return reply(slot, r, m.step, now_);
      const Store& store = program_.stores[static_cast<std::size_t>(store_of_[op.what])];
      return await_service(roles_[store.role].base + m.receiver, slot);
    }
    if (op.kind == OpKind::gate) {
      VersionedStore& store = stores_[op.what];
      if (!store.open(m.receiver, m.key, m.sender, m.clock)) {
        m.start = now_;
        leave_core(m.sender);
        return store.park(m.receiver, m.key, m.sender, m.clock, slot);
      }
      record_service(m, r, now_);
      ++m.step;
      continue;
    }
    if (merges_beside(op)) {
      m.merging = true;
      m.start = now_;
      return schedule(plan_.messages->apply(op.what, m.key, m.receiver).ps,
                      uint64_t{global} * kLanes << 32 | (slot + 1));
    }
    return await_service(global, slot);
  }
  free_messages_.push_back(slot);
}

/// Do answers from the store hold it while they are copied?
bool EventEngine::copies_answers(uint32_t store, const Message& m) const {
  return plan_.messages->snapshot(store, m.key, m.receiver).ps > 0;
}

bool EventEngine::takes_snapshot(const Message& m, const Op& op) const {
  const int32_t store = store_of_[op.what];
  return store >= 0 && copies_answers(static_cast<uint32_t>(store), m);
}

void EventEngine::await_service(uint32_t global, uint32_t slot) {
  Server& server = servers_[global];
  Message& m = messages_[slot];
  m.next = kNone;
  if (server.answers) {
    answered_.push_back(slot);
  } else if (server.busy) {
    leave_core(m.sender);
    (server.head == kNone ? server.head : messages_[server.tail].next) = slot;
    server.tail = slot;
  } else {
    begin_service(global, slot);
  }
}

void EventEngine::begin_service(uint32_t global, uint32_t slot) {
  const Message& m = messages_[slot];
  const uint32_t r = program_.channels[m.channel].to_role;
  const Op& op = roles_[r].ops[m.step];
  Server& server = servers_[global];
  server.busy = true;
  server.current = slot;
  server.start = now_;
  Time t;
  if (op.kind == OpKind::apply) {
    server.drops = stores_[op.what].late(m.receiver, m.key, m.sender, m.version);
    if (!server.drops) t = plan_.messages->apply(op.what, m.key, m.receiver);
  } else if (op.kind == OpKind::send) {
    t = plan_.messages->snapshot(static_cast<uint32_t>(store_of_[op.what]), m.key, m.receiver);
  } else {
    t = roles_[r].costs->duration[class_of(roles_[r], m.receiver)][m.step];
  }
  // Where a worker is one thread it does this itself, and all others wait until it has its processor.
  if (turns_ && plan_.disturbance.shared.one_thread && roles_[r].count == 1 &&
      program_.channels[m.channel].from_role == 0)
    return work_in_turn(m.thread, global * kLanes, t.ps);
  if (roles_[r].costs->on_devices) take_device(r, m.receiver, t.ps);
  schedule(t.ps, uint64_t{global} * kLanes << 32);
}

/// A server's kernels go first on the device that they share with a worker's.
void EventEngine::take_device(uint32_t r, uint32_t instance, int64_t time) {
  const Channel& served = program_.channels[static_cast<std::size_t>(roles_[r].role->on_channel)];
  const uint32_t global = roles_[served.from_role].base + instance;
  taken_[global].until = std::max(taken_[global].until, now_) + time;
  if (lanes_[std::size_t{global} * kLanes].state == State::running) taken_[global].owed += time;
}

/// The lane's op has to make up for what servers took of its device meanwhile.
bool EventEngine::pays_back(uint32_t lane_id) {
  if (taken_.empty() || lane_id % kLanes != static_cast<uint32_t>(Lane::compute)) return false;
  TakenDevice& taken = taken_[lane_id / kLanes];
  const int64_t owed = taken.owed - taken.spare;
  taken.owed = taken.spare = 0;
  if (owed <= 0) return false;
  schedule(owed, uint64_t{lane_id} << 32);
  return true;
}

void EventEngine::service_ended(uint32_t global) {
  Server& server = servers_[global];
  const uint32_t slot = server.current;
  const Message& m = messages_[slot];
  const uint32_t r = program_.channels[m.channel].to_role;
  const Op& op = roles_[r].ops[m.step];
  if (op.kind == OpKind::send) {
    reply(slot, r, m.step, server.start);
    return free_server(global);
  }
  record_service(m, r, server.start);
  released_.clear();
  if (op.kind == OpKind::apply) apply(slot, op, server.drops);
  server.answers = op.kind == OpKind::apply && copies_answers(op.what, m);
  if (!server.answers) free_server(global);
  pass_gates(messages_[slot]);  // in the order they came, then this one
  ++messages_[slot].step;
  serve(slot);
  if (!std::exchange(server.answers, false)) return;
  for (const uint32_t answer : std::views::reverse(answered_)) {
    if (server.head == kNone) server.tail = answer;
    messages_[answer].next = std::exchange(server.head, answer);
  }
  answered_.clear();
  free_server(global);
}

/// For the next in line.
void EventEngine::free_server(uint32_t global) {
  Server& server = servers_[global];
  server.busy = false;
  if (server.head == kNone) return;
  const uint32_t next = server.head;
  server.head = messages_[next].next;
  begin_service(global, next);
}

/// Of a store in which nobody waits for another.
void EventEngine::merged_beside(uint32_t slot) {
  Message& m = messages_[slot];
  m.merging = false;
  const uint32_t r = program_.channels[m.channel].to_role;
  record_service(m, r, m.start);
  released_.clear();
  apply(slot, roles_[r].ops[m.step], false);
  ++m.step;
  serve(slot);
}

/// What was parked goes on, thanks to `by`.
void EventEngine::pass_gates(Message by) {
  const std::vector<uint32_t> opened(released_);
  released_.clear();
  for (const uint32_t parked : opened) {
    open_gate(parked, by, program_.channels[messages_[parked].channel].to_role);
  }
}

/// The worker has sent its last gradients and they were handled: it holds nobody back any more (4.4).
void EventEngine::leave_stores(uint32_t worker) {
  const LaneState* const lanes = &lanes_[worker * std::size_t{kLanes}];
  for (const Op& op : roles_[0].ops) {
    if (op.kind == OpKind::send && pushes(op.what) &&
        lanes[static_cast<int>(op.lane)].state != State::finished)
      return;
  }
  unhandled_[worker] = kNone;  // once
  for (uint32_t c = 0; c < program_.channels.size(); ++c) {
    const Channel& channel = program_.channels[c];
    if (!pushes(c)) continue;
    VersionedStore& store = stores_[static_cast<std::size_t>(store_of_[c])];
    const auto keys = static_cast<uint32_t>(keys_of(channel));
    for (uint32_t key = 0; key < keys; ++key) {
      const Instances held = holders(channel, key, roles_[channel.to_role].count);
      for (uint32_t shard = held.first; shard < held.first + held.count; ++shard)
        store.leave(shard, key, worker, sent_[sent_at_[c] + worker * keys + key], released_);
    }
  }
}

/// The channel takes gradients from workers to a store.
bool EventEngine::pushes(uint32_t channel) const {
  const Channel& c = program_.channels[channel];
  return c.from_role == 0 && c.address != Address::reply && store_of_[channel] >= 0;
}

void EventEngine::apply(uint32_t slot, const Op& op, bool dropped) {
  Message& m = messages_[slot];
  VersionedStore& store = stores_[op.what];
  const bool counts = plan_.measured(program_.stores[op.what].role);
  if (program_.stores[op.what].own_models) return store.merge(m.receiver, m.key, m.sender);  // nobody waits
  if (dropped) {
    trace_.dropped += counts && run_in() ? 1 : 0;
  } else if (!counts) {
    store.merge(m.receiver, m.key, m.sender);
  } else {
    count_staleness(int64_t{store.version(m.receiver, m.key, m.sender)} - int64_t{m.version}, m.sender);
    store.merge(m.receiver, m.key, m.sender);
  }
  m.clock = store.handled(m.receiver, m.key, m.sender, m.number, m.version, released_);
  if (pushes(m.channel) && store_of_[m.channel] == static_cast<int32_t>(op.what) &&
      --unhandled_[m.sender] == 0)
    leave_stores(m.sender);
}

/// `start`: of what the server does for it.
void EventEngine::reply(uint32_t request, uint32_t r, uint32_t index, int64_t start) {
  const uint32_t slot = new_message();
  const Message& served = messages_[request];
  Message& m = messages_[slot];
  m.channel = roles_[r].ops[index].what;
  m.key = served.key;
  m.sender = served.receiver;
  m.receiver = served.sender;
  m.number = served.number;
  m.request = request;
  m.start = start;
  m.way = served.way;
  m.way.replied = now_;
  if (store_of_[m.channel] >= 0) {
    m.version = stores_[static_cast<std::size_t>(store_of_[m.channel])].version(m.sender, m.key, m.receiver);
  }
  // One draw per request: (shard, number) and the worker that asked.
  const double factor =
      calm_ ? 1.0
            : plan_.transfer_factor(r, m.sender, m.number, index ^ static_cast<uint32_t>(mix64(m.receiver)));
  const uint32_t lane_id =
      (roles_[r].base + m.sender) * kLanes + static_cast<uint32_t>(roles_[r].ops[index].lane);
  post(slot, lane_id, factor);
}

}  // namespace tandem::sim

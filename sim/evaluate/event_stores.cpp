// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_stores.h"

#include <algorithm>

namespace tandem::sim {

namespace {

uint32_t serving_channel(const Program& program, const Store& store) {
  return static_cast<uint32_t>(program.roles[store.role].on_channel);
}

}  // namespace

EventStores::EventStores(EventState& state, const EventChannels& channels)
    : state_(state), channels_(channels) {
  if (channels.count() == 0) return;
  const uint32_t workers = state.roles.workers();
  unhandled_.assign(workers, 0);
  if (!state.program.stores.empty()) state.trace.staleness_by_worker.resize(std::min<uint32_t>(64, workers));
  for (const Store& s : state.program.stores) {
    const uint32_t in = serving_channel(state.program, s);
    const uint32_t senders = state.roles[channels[in].from_role].count;
    stores_.emplace_back(s, holders(channels[in], 0, state.roles[s.role].count).count, channels.keys(in),
                         senders);
    own_version_.emplace_back(s.own_models ? std::size_t{channels.keys(in)} * senders : 0);
  }
}

int64_t EventStores::versions() const {
  int64_t out = 0;
  for (uint32_t s = 0; s < stores_.size(); ++s) {
    if (state_.plan.measured(rules(s).role)) out += stores_[s].versions();
  }
  return out;
}

void EventStores::count_staleness(int64_t versions, uint32_t worker) {
  if (!state_.iterations.has_run_in()) return;
  Trace& trace = state_.trace;
  trace.staleness.add(versions);
  if (worker < trace.staleness_by_worker.size()) trace.staleness_by_worker[worker].add(versions);
}

void EventStores::apply(EventMessage& m, uint32_t s, bool dropped, std::vector<uint32_t>& released) {
  VersionedStore& store = stores_[s];
  if (rules(s).own_models) return store.merge(m.receiver, m.key, m.sender);  // nobody waits
  const bool counts = state_.plan.measured(rules(s).role);
  if (dropped) {
    state_.trace.dropped += counts && state_.iterations.has_run_in() ? 1 : 0;
  } else {
    if (counts)
      count_staleness(int64_t{store.version(m.receiver, m.key, m.sender)} - int64_t{m.version}, m.sender);
    store.merge(m.receiver, m.key, m.sender);
  }
  m.clock = store.handled(m.receiver, m.key, m.sender, m.number, m.version, released);
  if (channels_.pushes(m.channel) && channels_.store(m.channel) == static_cast<int32_t>(s) &&
      --unhandled_[m.sender] == 0)
    leave(m.sender, released);
}

void EventStores::joined(uint32_t s, uint32_t worker, uint32_t key) {
  if (!rules(s).own_models) return;
  VersionedStore& store = stores_[s];
  store.merge(worker, key, worker);
  const uint32_t now = store.version(worker, key, worker);
  const uint32_t keys = channels_.keys(serving_channel(state_.program, rules(s)));
  uint32_t& read = own_version_[s].at(std::size_t{worker} * keys + key);
  if (state_.plan.measured(rules(s).role)) count_staleness(now - read, worker);
  read = now;
}

bool EventStores::lane_finished(uint32_t worker, std::vector<uint32_t>& released) {
  if (unhandled_.empty() || unhandled_[worker] > 0) return false;
  leave(worker, released);
  return true;
}

void EventStores::leave(uint32_t worker, std::vector<uint32_t>& released) {
  const EventLane* const lanes = state_.lanes_of(worker);
  for (const Op& op : state_.roles[0].ops) {
    if (op.kind == OpKind::send && channels_.pushes(op.what) &&
        lanes[static_cast<int>(op.lane)].state != EventLane::State::finished)
      return;
  }
  unhandled_[worker] = UINT32_MAX;  // once
  for (uint32_t c = 0; c < channels_.count(); ++c) {
    if (!channels_.pushes(c)) continue;
    VersionedStore& store = stores_[static_cast<std::size_t>(channels_.store(c))];
    for (uint32_t key = 0; key < channels_.keys(c); ++key) {
      const Instances held = holders(channels_[c], key, state_.roles[channels_[c].to_role].count);
      for (uint32_t shard = held.first; shard < held.first + held.count; ++shard)
        store.leave(shard, key, worker, channels_.sent(c, key, worker), released);
    }
  }
}

}  // namespace tandem::sim

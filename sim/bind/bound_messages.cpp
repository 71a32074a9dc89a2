// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/bound_messages.h"

#include <algorithm>
#include <string>

namespace tandem::sim {

namespace {

class BoundMessages : public BoundProgram::Messages {
 public:
  BoundMessages(std::shared_ptr<const Program> program, std::shared_ptr<Costs> costs,
                std::vector<std::vector<VertexId>> where)
      : program_(std::move(program)), costs_(std::move(costs)), where_(std::move(where)) {
    if (costs_->incast().none()) return;
    for (const Channel& c : program_->channels) delays_.push_back(delays(c));
  }

  const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) override {
    const Channel& c = program_->channels[channel];
    const VertexId from = where_[c.from_role][sender], to = where_[c.to_role][receiver];
    const Transfer& t = costs_->message(c, from, to, payload(c, key));
    if (delays_.empty() || delays_[channel][receiver].ps == 0 || !over_network(from, to)) return t;
    delayed_ = t;
    delayed_.latency += delays_[channel][receiver];
    return delayed_;
  }

  Time apply(uint32_t store, uint32_t key, uint32_t shard) override {
    const Store& s = program_->stores[store];
    return costs_->merge(s, where_[s.role][shard], merged_bytes(s, key));
  }

  Time snapshot(uint32_t store, uint32_t key, uint32_t shard) override {
    const Store& s = program_->stores[store];
    return costs_->snapshot(s, where_[s.role][shard], merged_bytes(s, key));
  }

 private:
  bool over_network(VertexId from, VertexId to) const {
    const System& system = costs_->system();
    return system.node_of(from) != system.node_of(to);
  }

  /// [receiver]: what its messages wait for timeouts. Those that a sender has under way at the same time fill
  /// the same buffers, so that all keys of an iteration count as one round.
  std::vector<Time> delays(const Channel& c) const {
    ManyToMany round{.what = program_->roles[c.from_role].name + " to " + program_->roles[c.to_role].name,
                     .senders = where_[c.from_role],
                     .receivers = where_[c.to_role]};
    round.bytes = most_of_one(c);
    const bool replies = c.address == Address::reply;
    for (const Store& s : program_->stores) {
      if ((replies ? s.answers() : s.role) == (replies ? c.from_role : c.to_role)) round.as_one = s.shares;
    }
    if (c.address == Address::shards) {
      round.at_once = pushed_at_once(c);
    } else if (replies && from_shards(c)) {
      round.alone = !in_lock_step(*program_);
      if (round.alone) round.as_one = 1;
    } else {
      round.bytes = 0;  // one sender for each receiver
    }
    return costs_->incast().delays(round);
  }

  const Channel& asked_by(const Channel& reply) const {
    return program_->channels[static_cast<std::size_t>(program_->roles[reply.from_role].on_channel)];
  }
  bool from_shards(const Channel& reply) const { return asked_by(reply).address == Address::shards; }

  /// Of all keys, what one message each of them brings a receiver, or the fullest of several owners.
  double most_of_one(const Channel& c) const {
    const Channel& pushes = c.address == Address::reply ? asked_by(c) : c;
    std::vector<double> bytes(pushes.owners.empty() ? 1 : where_[pushes.to_role].size());
    for (uint32_t key = 0; key < c.key_bytes.size(); ++key)
      bytes[pushes.owners.empty() ? 0 : pushes.owners[key]] += static_cast<double>(payload(c, key).n);
    return *std::max_element(bytes.begin(), bytes.end());
  }

  /// The share of the workers whose gradients make up a version, and so come in one round; 1 without a store.
  double pushed_at_once(const Channel& c) const {
    for (const Store& s : program_->stores) {
      if (s.role != c.to_role) continue;
      const double together = static_cast<double>(s.batch) * s.shares;
      return std::min(1.0, together / static_cast<double>(where_[c.from_role].size()));
    }
    return 1;
  }

  /// A channel's payload is split over those shards that have the key.
  Bytes payload(const Channel& c, uint32_t key) const {
    int64_t parts = 1;
    const Channel& pushes = c.address == Address::reply ? asked_by(c) : c;
    if (pushes.address == Address::shards)
      parts = holders(pushes, key, static_cast<int64_t>(where_[pushes.to_role].size())).count;
    return {(c.key_bytes[key].n + parts - 1) / parts};
  }

  /// A push may be compressed; its answer is as long as what is merged.
  Bytes merged_bytes(const Store& s, uint32_t key) const {
    for (const Channel& c : program_->channels) {
      if (c.from_role == s.answers() && key < c.key_bytes.size()) return payload(c, key);
    }
    return {};
  }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<Costs> costs_;
  std::vector<std::vector<VertexId>> where_;
  std::vector<std::vector<Time>> delays_;  ///< [channel][receiver]; empty where nothing is lost
  Transfer delayed_;
};

}  // namespace

std::shared_ptr<BoundProgram::Messages> bound_messages(std::shared_ptr<const Program> program,
                                                       std::shared_ptr<Costs> costs,
                                                       std::vector<std::vector<VertexId>> where) {
  return std::make_shared<BoundMessages>(std::move(program), std::move(costs), std::move(where));
}

}  // namespace tandem::sim

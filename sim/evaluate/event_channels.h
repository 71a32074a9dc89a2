// SPDX-License-Identifier: Apache-2.0
#pragma once
// The channels of a program in the event evaluator: whom they lead to, and what has come by them.
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/evaluate/event_roles.h"
#include "sim/evaluate/inbox.h"

namespace tandem::sim {

/// For one thread at a time.
class EventChannels {
 public:
  /// Both outlive it.
  EventChannels(const BoundProgram& plan, const EventRoles& roles);

  const Channel& operator[](uint32_t channel) const { return program_.channels[channel]; }
  uint32_t count() const { return static_cast<uint32_t>(program_.channels.size()); }
  uint32_t keys(uint32_t channel) const {
    return static_cast<uint32_t>(program_.channels[channel].key_bytes.size());
  }
  bool replies(uint32_t channel) const { return program_.channels[channel].address == Address::reply; }
  /// The store that stamps or receives its messages; -1: none.
  int32_t store(uint32_t channel) const { return store_of_[channel]; }
  /// It takes gradients from workers to a store.
  bool pushes(uint32_t channel) const {
    return program_.channels[channel].from_role == 0 && !replies(channel) && store_of_[channel] >= 0;
  }
  /// Of all channels' keys.
  uint32_t port(uint32_t channel, uint32_t key) const { return port_at_[channel] + key; }

  /// The instances that the sender's message of an iteration goes to.
  Instances receivers(uint32_t channel, uint32_t key, uint32_t sender, uint32_t iteration) const {
    const Channel& c = program_.channels[channel];
    if (c.address == Address::shards) return holders(c, key, roles_[c.to_role].count);
    if (!among_peers(c)) return {sender, 1};
    return {peer_of(c.address, sender, roles_[c.to_role].count, seed_, iteration), 1};
  }
  /// Number of the sender's next message, from 1.
  uint32_t next_number(uint32_t channel, uint32_t key, uint32_t sender) {
    return ++sent(channel, key, sender);
  }
  uint32_t sent(uint32_t channel, uint32_t key, uint32_t sender) const {
    return sent_[sent_at_[channel] + std::size_t{sender} * keys(channel) + key];
  }
  /// The version that goes along with what a worker sends: that of the last reply of the store it goes to.
  uint32_t version(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) const {
    if (pull_of_[channel] < 0) return 0;
    const Inbox& pulled = *inboxes_[static_cast<std::size_t>(pull_of_[channel])];
    return pulled.version(sender, key, pulled.sources() > 1 ? receiver : 0);
  }
  /// Where messages to a repeating role wait.
  Inbox& inbox(uint32_t channel) { return *inboxes_[channel]; }
  /// A message from `sender` has come to an instance of a repeating role.
  void arrive(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver, uint32_t number,
              uint32_t version) {
    if (!heard_[channel].empty()) number = ++heard_[channel][std::size_t{receiver} * keys(channel) + key];
    Inbox& inbox = *inboxes_[channel];
    inbox.arrive(receiver, key, replies(channel) && inbox.sources() > 1 ? sender : 0, number, version);
  }

 private:
  static bool among_peers(const Channel& channel) {
    return channel.address == Address::sampled_peer || channel.address == Address::next_peer;
  }
  void build(uint32_t channel);
  uint32_t& sent(uint32_t channel, uint32_t key, uint32_t sender) {
    return sent_[sent_at_[channel] + std::size_t{sender} * keys(channel) + key];
  }

  const Program& program_;
  const EventRoles& roles_;
  const uint64_t seed_;
  std::vector<std::optional<Inbox>> inboxes_;  ///< [channel], where it leads to a repeating role
  std::vector<int32_t> pull_of_;              ///< [channel]: whose inbox has the versions sent along, -1 none
  std::vector<int32_t> store_of_;             ///< [channel]
  std::vector<std::size_t> sent_at_;          ///< [channel]: where `sent_` has its senders
  std::vector<uint32_t> port_at_;             ///< [channel]: port of its first key
  std::vector<uint32_t> sent_;                ///< [sender * keys + key] of each channel
  std::vector<std::vector<uint32_t>> heard_;  ///< [channel][receiver * keys + key], from sampled peers only
};

}  // namespace tandem::sim

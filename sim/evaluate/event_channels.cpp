// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_channels.h"

namespace tandem::sim {

EventChannels::EventChannels(const BoundProgram& plan, const EventRoles& roles)
    : program_(*plan.program),
      roles_(roles),
      seed_(plan.seed),
      inboxes_(count()),
      pull_of_(count(), -1),
      store_of_(count(), -1),
      sent_at_(count(), 0),
      port_at_(count(), 0),
      heard_(count()) {
  for (uint32_t c = 0; c < count(); ++c) build(c);
  // A gradient carries the version that came with the replies of the store it goes to.
  for (uint32_t c = 0; c < count(); ++c) {
    if (replies(c) || store_of_[c] < 0) continue;
    for (uint32_t back = 0; back < count(); ++back) {
      if (replies(back) && store_of_[back] == store_of_[c] && inboxes_[back] && pull_of_[c] < 0)
        pull_of_[c] = static_cast<int32_t>(back);
    }
  }
}

void EventChannels::build(uint32_t c) {
  const Channel& channel = program_.channels[c];
  const uint32_t holder = replies(c) ? channel.from_role : channel.to_role;
  for (std::size_t s = program_.stores.size(); s-- > 0;) {
    const Store& store = program_.stores[s];
    if ((replies(c) ? store.answers() : store.role) == holder) store_of_[c] = static_cast<int32_t>(s);
  }
  if (c > 0) port_at_[c] = port_at_[c - 1] + keys(c - 1);
  sent_at_[c] = sent_.size();
  if (!replies(c)) sent_.resize(sent_.size() + std::size_t{roles_[channel.from_role].count} * keys(c), 0);
  if (roles_[channel.to_role].serves) return;
  uint32_t sources = 1;
  if (replies(c)) {
    const Channel& asked =
        program_.channels[static_cast<std::size_t>(roles_[channel.from_role].role->on_channel)];
    if (asked.address == Address::shards) sources = holders(asked, 0, roles_[channel.from_role].count).count;
  }
  inboxes_[c].emplace(roles_[channel.to_role].count, keys(c), sources);
  if (among_peers(channel)) heard_[c].assign(std::size_t{roles_[channel.to_role].count} * keys(c), 0);
}

}  // namespace tandem::sim

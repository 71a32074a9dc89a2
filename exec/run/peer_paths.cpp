// SPDX-License-Identifier: Apache-2.0
#include "exec/run/peer_paths.h"

#include <algorithm>
#include <set>

namespace tandem::exec {

StagePaths::StagePaths(const RunPlan& plan, Network& network, Abort& abort, int spins)
    : plan_(plan), network_(network) {
  const auto& channels = plan.program().channels;
  if (std::all_of(channels.begin(), channels.end(), [](const Channel& c) { return c.key_layers.empty(); }))
    return;
  const uint32_t first = network.take_channels(channels.size());
  links_ = std::make_unique<PeerLinks>(network.transport(), first, static_cast<uint32_t>(channels.size()),
                                       abort, spins);
}

void StagePaths::open() {
  const auto& channels = plan_.program().channels;
  for (uint32_t c = 0; c < channels.size(); ++c) {
    for (uint32_t key = 0; key < channels[c].key_layers.size(); ++key) {
      for (uint32_t i = 0; i < plan_.program().roles[channels[c].from_role].mesh.size(); ++i)
        links_->open(of(c, key, plan_.stages().device(channels[c].from_role, i)));
    }
  }
}

PeerLinks::Pair StagePaths::of(uint32_t channel, uint32_t key, uint32_t instance) const {
  const Channel& c = plan_.program().channels[channel];
  const uint32_t i = plan_.stages().place(instance).instance;
  const uint32_t from = plan_.stages().device(c.from_role, i), to = plan_.stages().device(c.to_role, i);
  return {channel, key, from, to, network_.node_of(from), network_.node_of(to)};
}

TokenPaths::TokenPaths(const RunPlan& plan, Network& network, Abort& abort, int spins) : network_(network) {
  std::set<uint32_t> with_tokens;  // collectives
  for (const Role& role : plan.program().roles) {
    for (const Op& op : role.ops) {
      if (plan.carries_tokens(op)) with_tokens.insert(op.what);
    }
  }
  if (with_tokens.empty()) return;
  const auto& collectives = plan.program().collectives;
  const uint32_t first = network.take_channels(collectives.size());
  links_ = std::make_unique<PeerLinks>(network.transport(), first, static_cast<uint32_t>(collectives.size()),
                                       abort, spins);
  for (const uint32_t c : with_tokens) {
    const std::vector<std::vector<uint32_t>> groups = plan.groups(collectives[c]);
    for (uint32_t group = 0; group < groups.size(); ++group) members_[{c, group}] = groups[group];
  }
}

void TokenPaths::open() {
  for (const auto& [at, members] : members_) {
    for (uint32_t from = 0; from < members.size(); ++from) {
      for (uint32_t to = 0; to < members.size(); ++to) {
        if (from != to) links_->open(of(at.first, at.second, from, to));
      }
    }
  }
}

PeerLinks::Pair TokenPaths::of(uint32_t collective, uint32_t group, uint32_t from, uint32_t to) const {
  const auto& members = members_.at({collective, group});
  return {collective,
          from,
          members[from],
          members[to],
          network_.node_of(members[from]),
          network_.node_of(members[to])};
}

}  // namespace tandem::exec

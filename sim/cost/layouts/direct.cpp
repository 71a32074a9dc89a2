// SPDX-License-Identifier: Apache-2.0
// Members that send straight to each other, all at once.
#include <algorithm>

#include "sim/cost/layout.h"
#include "sim/cost/nccl_tuning.h"
#include "sim/cost/pattern_price.h"

namespace tandem::sim {
namespace {

/// Flows between different pairs of members, side by side.
class Sending {
 public:
  explicit Sending(const System& system) : system_(system) {}

  void put(VertexId from, VertexId to, double weight) {
    const Route r = system_.route(from, to);
    const HopClass hop = hop_class(system_, from, to, r);
    pattern_.add(from, to, r, hop, weight, system_);
    worst_ = std::max(worst_, hop);
    if (hop == HopClass::host && r.cap > 0) {
      for (const VertexId end : {from, to}) staged_[end] += weight / r.cap;
    }
    slowest_ = std::max(slowest_, r.latency.seconds());
  }
  /// The cap of one flow does not bind the sum of several. But what a member sends and receives through host
  /// memory takes turns: all-to-all of four L40S moves no more for each of them than one flow of their ring
  /// does.
  void uncap() {
    pattern_.cap = {};
    double busiest = 0;
    for (const auto& [member, seconds] : staged_) busiest = std::max(busiest, seconds);
    if (busiest > 0) pattern_.cap[static_cast<std::size_t>(HopClass::host)] = 1 / busiest;
  }
  Pattern in(double steps) && {
    pattern_.steps[static_cast<std::size_t>(worst_)] = steps;
    pattern_.wire[static_cast<std::size_t>(worst_)] = slowest_;
    return std::move(pattern_);
  }

 private:
  const System& system_;
  Pattern pattern_;
  std::map<VertexId, double> staged_;  ///< seconds per byte of payload of its staged flows
  HopClass worst_ = HopClass::fabric;
  double slowest_ = 0;
};

/// Every rank to every rank: all pairs, or of large groups those inside one node and some from and to it.
void put_pairs(Sending& sending, const Group& group) {
  constexpr std::size_t kPairs = 128;  // ranks up to which all pairs are enumerated
  constexpr std::size_t kSamples = 16;
  const auto n = static_cast<double>(group.ranks());
  const auto among = [&](const std::vector<VertexId>& members) {
    for (const VertexId a : members) {
      for (const VertexId b : members) {
        if (a != b) sending.put(a, b, 1 / n);
      }
    }
  };
  if (group.ranks() <= kPairs) return among(group.members);
  const auto& home = group.by_node.front();
  among(home);
  const std::size_t nodes = group.nodes(), samples = std::min(kSamples, nodes - 1);
  for (std::size_t s = 0; s < samples; ++s) {
    const auto& far = group.by_node[1 + s * (nodes - 1) / samples];
    for (std::size_t i = 0; i < home.size(); ++i) {
      const double weight = (n - static_cast<double>(home.size())) / n / static_cast<double>(samples);
      sending.put(home[i], far[i % far.size()], weight);
      sending.put(far[i % far.size()], home[i], weight);
    }
  }
}

Pattern lay_direct(const LayoutInput& input) {
  Sending sending(input.system);
  put_pairs(sending, input.group);
  sending.uncap();
  Pattern p = std::move(sending).in(1);
  const auto n = static_cast<double>(input.group.ranks());
  p.message = 1 / n;
  share_channels(p, input.group, input.library, 1, n - 1);
  p.fabric_efficiency = input.library.exchange_efficiency;
  return p;
}

}  // namespace

void share_channels(Pattern& p, const Group& group, const Library& library, double copied, double peers) {
  if (library.exchange_ll <= 0 || group.nodes() > 1) return;
  const NcclTuning::Exchange& data = nccl_tuning().exchange;
  const bool fabric = worst_hop(p) == static_cast<std::size_t>(HopClass::fabric);
  const bool whole = library.version >= data.whole_from && library.version < data.whole_before;
  p.channels = fabric ? data.channels : data.channels_pcie;
  p.ll_channels = whole ? p.channels : 1;
  p.chunk = data.chunk;
  p.part = data.part;
  p.part_ll = whole ? data.part_ll : data.part;
  p.copied = fabric ? copied : 0;
  p.peers = peers;
}

std::vector<Protocol> message_protocols(const Library& library) {
  if (library.exchange_ll <= 0) return library.protocols;
  Protocol small = library.protocols.front(), bulk = library.protocols.back();
  small.most = library.exchange_ll;
  bulk.base = small.base;
  return {small, bulk};
}

Pattern sends_pattern(const System& system, const Group& group, const Sends& sends) {
  Sending sending(system);
  double message = 0;
  for (std::size_t i = 0; i < group.ranks(); ++i) {
    const auto targets = sends(i);
    for (const auto& [j, weight] : targets) {
      sending.put(group.members[i], group.members[j], weight);
      message = std::max(message, weight);
    }
    if (targets.size() > 1) sending.uncap();
  }
  Pattern p = std::move(sending).in(1);
  p.message = message;
  return p;
}

void register_direct(Registry<Layout>& registry) {
  registry.add({.name = "direct",
                .summary = "every member straight to every other, all at once",
                .can = [](const LayoutInput& input) { return input.kind == CollKind::all_to_all; },
                .lay = lay_direct,
                .last_resort = true,
                .protocols = message_protocols});
}

}  // namespace tandem::sim

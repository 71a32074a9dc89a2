// SPDX-License-Identifier: Apache-2.0
// Members that send straight to each other, all at once.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "sim/cost/layout.h"
#include "sim/cost/nccl_tuning.h"
#include "sim/cost/pattern_price.h"

namespace tandem::sim {
namespace {

/// Flows between different pairs of members, side by side.
class Sending {
 public:
  explicit Sending(const System& system) : system_(system) {}
  /// The same, of a library that may pass messages on to the sender's neighbour whose NIC is the receiver's.
  Sending(const System& system, const Library& library, const Group& group) : system_(system) {
    if (passes_to_neighbours(library)) members_.insert(group.members.begin(), group.members.end());
  }

  void put(VertexId from, VertexId to, double weight) {
    const Route r = route(from, to);
    const HopClass hop = hop_class(system_, from, to, r);
    pattern_.add(from, to, r, hop, weight, system_);
    if (!nodes_.empty()) repeat_below(from, to, r, weight);
    worst_ = std::max(worst_, hop);
    if (hop == HopClass::host && r.cap > 0) {
      for (const VertexId end : {from, to}) staged_[end] += weight / r.cap;
    }
    slowest_ = std::max(slowest_, r.latency.seconds());
  }
  /// From now on the group's first node stands for all: a trunk above it carries as much for each of the
  /// group's nodes below. What goes from and to it on one leaf crosses trunks of that leaf twice, once for
  /// each end.
  void stand_for_all(const Group& group) {
    for (const auto& members : group.by_node) nodes_.push_back(system_.node_of(members.front()));
  }
  /// The cap of one flow does not bind the sum of several. But what a member sends and receives through host
  /// memory alternates: all-to-all of four L40S moves no more for each of them than one flow of their ring
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
  /// NCCL has done so since 2.12 (PXN; NCCL_P2P_PXN_LEVEL is 2, always, for sends).
  static bool passes_to_neighbours(const Library& library) {
    constexpr int kSince = 212;
    return library.name.starts_with("nccl") && library.version >= kSince;
  }
  Route route(VertexId from, VertexId to) const {
    const VertexId neighbour = twin_of(system_, to, from);
    return members_.contains(neighbour) ? route_by_rail(system_, from, to) : system_.route(from, to);
  }

  void repeat_below(VertexId from, VertexId to, const Route& route, double weight) {
    const int64_t home = nodes_.front(), ends[] = {system_.node_of(from), system_.node_of(to)};
    for (const LinkId link : route.links) {
      const auto [first, last] = system_.nodes_below(link);
      if (last - first < 2 || home < first || home >= last) continue;
      const auto begin = std::lower_bound(nodes_.begin(), nodes_.end(), first);
      const auto nodes = static_cast<double>(std::lower_bound(begin, nodes_.end(), last) - begin);
      const bool both = std::min(ends[0], ends[1]) >= first && std::max(ends[0], ends[1]) < last;
      pattern_.load[static_cast<std::size_t>(HopClass::network)][resource_of(system_, link)] +=
          weight * ((both ? nodes / 2 : nodes) - 1);
    }
  }

  const System& system_;
  std::vector<int64_t> nodes_;            ///< of the group, ascending, where its first one stands for all
  std::unordered_set<VertexId> members_;  ///< among whom messages may be passed on; empty: nobody does
  Pattern pattern_;
  std::map<VertexId, double> staged_;  ///< seconds per byte of payload of its staged flows
  HopClass worst_ = HopClass::fabric;
  double slowest_ = 0;
};

/// Nodes of a group around its first, shell by shell: those below the same switch of the network, without
/// those of the shell before. The last holds all that are left.
std::vector<std::vector<std::size_t>> shells(const System& system, const Group& group) {
  const auto& home = group.by_node.front();
  std::set<std::pair<int64_t, int64_t>> ranges;
  for (const LinkId link : system.route(home.front(), group.by_node.back().back()).links) {
    const auto range = system.nodes_below(link);
    const int64_t node = system.node_of(home.front());
    if (range.first <= node && node < range.second && range.second - range.first > 1) ranges.insert(range);
  }
  std::vector<std::vector<std::size_t>> out(ranges.size() + 1);
  for (std::size_t i = 1; i < group.nodes(); ++i) {
    const int64_t node = system.node_of(group.by_node[i].front());
    const auto outside = static_cast<std::size_t>(std::count_if(
        ranges.begin(), ranges.end(), [&](const auto& r) { return node < r.first || node >= r.second; }));
    out[outside].push_back(i);
  }
  return out;
}

/// Every rank to every rank: all pairs, or of large groups those inside the first node and some from and to
/// it. Nodes below one switch do as the first one, so that its trunk carries as much for each.
void put_pairs(Sending& sending, const System& system, const Group& group) {
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
  sending.stand_for_all(group);
  for (const std::vector<std::size_t>& shell : shells(system, group)) {
    const std::size_t samples = std::min(kSamples, shell.size());
    for (std::size_t s = 0; s < samples; ++s) {
      const auto& far = group.by_node[shell[s * shell.size() / samples]];
      const std::size_t targets = std::min(kSamples, far.size());
      const double weight =
          static_cast<double>(shell.size() * far.size()) / n / static_cast<double>(samples * targets);
      for (std::size_t i = 0; i < home.size(); ++i) {
        for (std::size_t t = 0; t < targets; ++t) {
          const VertexId there = far[(i + t * far.size() / targets) % far.size()];
          sending.put(home[i], there, weight);
          sending.put(there, home[i], weight);
        }
      }
    }
  }
}

Pattern lay_direct(const LayoutInput& input) {
  Sending sending(input.system, input.library, input.group);
  put_pairs(sending, input.system, input.group);
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

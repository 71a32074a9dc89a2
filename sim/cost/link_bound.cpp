// SPDX-License-Identifier: Apache-2.0
// What the wires allow: the least time of a collective whatever the library does, from cuts through the
// machine.
#include <algorithm>
#include <functional>
#include <set>

#include "sim/cost/link_pattern.h"

namespace tandem::sim {
namespace {

constexpr std::size_t kFarSamples = 32;  // members on other nodes whose routes are looked at

using Side = std::vector<VertexId>;

/// Usable bytes/s of all links that lead from `inside` to the other members: of every kind of link that each
/// of those routes crosses, the sum over the distinct ones that they cross first, and that over those they
/// cross last (a switch's cables in, and out); the least of these sums.
double capacity_out(const System& system, const Side& inside, const Side& outside, bool leaving) {
  std::map<std::pair<std::string_view, bool>, std::map<uint32_t, double>> links;  // kind, first -> resource
  std::map<std::string_view, std::size_t> routes_with;
  std::size_t routes = 0;
  std::map<uint32_t, double> ends;  // the links at the inside's end of the routes
  const std::size_t step = std::max<std::size_t>(1, outside.size() / kFarSamples);
  for (const VertexId a : inside) {
    for (std::size_t o = 0; o < outside.size(); ++o) {
      // Those on the same node have their own paths: none of them may be missed.
      if (o % step != 0 && system.node_of(a) != system.node_of(outside[o])) continue;
      const Route r = leaving ? system.route(a, outside[o]) : system.route(outside[o], a);
      ++routes;
      const LinkId end = leaving ? r.links.front() : r.links.back();
      ends[resource_of(system, end)] = system.usable(end);
      std::map<std::string_view, LinkId> last;
      for (const LinkId l : r.links) {
        const std::string_view kind = system.link_kind(l);
        if (last.insert_or_assign(kind, l).second) {
          links[{kind, true}][resource_of(system, l)] = system.usable(l);
          ++routes_with[kind];
        }
      }
      for (const auto& [kind, l] : last) links[{kind, false}][resource_of(system, l)] = system.usable(l);
    }
  }
  double least = 0;
  for (const auto& [kind, of_kind] : links) {
    if (routes_with[kind.first] < routes) continue;
    double sum = 0;
    for (const auto& [resource, rate] : of_kind) sum += rate;
    if (least == 0 || sum < least) least = sum;
  }
  if (least == 0 && inside.size() == 1) {  // by cable to some, by PCIe to others
    for (const auto& [resource, rate] : ends) least += rate;
  }
  return least;
}

/// A run of the group's nodes below trunks of the network, and what those carry.
struct Behind {
  std::set<VertexId> members;
  std::map<uint32_t, double> out, back;  ///< usable bytes/s of each trunk
};

/// The runs of nodes around the group's first one, by the switches of the network that join them.
std::map<std::pair<int64_t, int64_t>, Behind> behind_trunks(const System& system, const Group& group) {
  std::map<std::pair<int64_t, int64_t>, Behind> runs;
  const auto& home = group.by_node.front();
  const auto& far = group.by_node.back();
  const int64_t node = system.node_of(home.front());
  const auto note = [&](VertexId from, VertexId to, bool leaving) {
    for (const LinkId link : system.route(from, to).links) {
      const auto run = system.nodes_below(link);
      if (run.second - run.first < 2 || node < run.first || node >= run.second) continue;
      Behind& behind = runs[run];
      (leaving ? behind.out : behind.back)[resource_of(system, link)] = system.usable(link);
    }
  };
  for (std::size_t i = 0; i < home.size(); ++i) {
    note(home[i], far[i % far.size()], true);
    note(far[i % far.size()], home[i], false);
  }
  for (auto& [run, behind] : runs) {
    for (const VertexId v : group.members) {
      const int64_t at = system.node_of(v);
      if (at >= run.first && at < run.second) behind.members.insert(v);
    }
  }
  return runs;
}

/// Bytes, per byte of payload, that must leave a side of `k` of `n` members.
double must_leave(CollKind kind, double k, double n, bool has_root) {
  switch (kind) {
    case CollKind::all_reduce:
      return 1;
    case CollKind::all_gather:
      return k / n;
    case CollKind::reduce_scatter:
      return (n - k) / n;
    case CollKind::broadcast:
      return has_root ? 1 : 0;
    case CollKind::reduce:
      return has_root ? 0 : 1;
    case CollKind::all_to_all:
      return k * (n - k) / n;
    case CollKind::shift:
      return 1;  // whichever side: a ring leaves it at least once
  }
  return 0;
}

}  // namespace

double least_seconds_per_byte(const System& system, const Group& group, CollKind kind, bool switch_reduces) {
  const auto n = static_cast<double>(group.ranks());
  double least = 0;
  const auto cut = [&](const Side& inside) {
    if (inside.empty() || inside.size() >= group.ranks()) return;
    const std::set<VertexId> in(inside.begin(), inside.end());
    Side outside;
    for (const VertexId v : group.members) {
      if (!in.contains(v)) outside.push_back(v);
    }
    const auto k = static_cast<double>(inside.size());
    const bool root = in.contains(group.members.front());
    const double out = capacity_out(system, inside, outside, true);
    const double back = capacity_out(system, inside, outside, false);
    if (out > 0) least = std::max(least, must_leave(kind, k, n, root) / out);
    if (back > 0) least = std::max(least, must_leave(kind, n - k, n, !root) / back);
  };
  for (const auto& [run, behind] : behind_trunks(system, group)) {
    const auto k = static_cast<double>(behind.members.size());
    const bool root = behind.members.contains(group.members.front());
    double out = 0, back = 0;
    for (const auto& [trunk, rate] : behind.out) out += rate;
    for (const auto& [trunk, rate] : behind.back) back += rate;
    if (k == n) continue;
    if (out > 0) least = std::max(least, must_leave(kind, k, n, root) / out);
    if (back > 0) least = std::max(least, must_leave(kind, n - k, n, !root) / back);
  }
  double all_ways_out = 0;
  const std::size_t looked_at = std::min<std::size_t>(group.ranks(), 16);
  for (std::size_t i = 0; i < looked_at; ++i) {
    const VertexId v = group.members[i];
    cut({v});
    Side others;
    for (const VertexId w : group.members) {
      if (w != v) others.push_back(w);
    }
    all_ways_out += capacity_out(system, {v}, others, true) * n / static_cast<double>(looked_at);
  }
  // Without reduction on the way an all-reduce sends 2(n-1) payloads in all, whoever sends them.
  if (kind == CollKind::all_reduce && !switch_reduces && all_ways_out > 0)
    least = std::max(least, 2 * (n - 1) / all_ways_out);
  const std::size_t nodes = std::min<std::size_t>(group.nodes(), 4);
  for (std::size_t node = 0; node < nodes; ++node) {
    cut(group.by_node[node]);
    std::map<int32_t, Side> sockets;
    for (const VertexId v : group.by_node[node]) sockets[system.info(v).numa].push_back(v);
    if (sockets.size() > 1) cut(sockets.begin()->second);
  }
  return least;
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "schemes/collectives.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/link_profile.h"
#include "sim/cost/network_software.h"
#include "sim/cost/tuner.h"

namespace tandem::sim {

struct LinkCost::Patterns {
  std::vector<Pattern> all;
  /// [pattern]: bytes on the threads that move the payload between nodes, per byte of it.
  std::vector<std::map<uint32_t, double>> threads;
  std::optional<Tuner> tuner;
};

LinkCost::LinkCost(const System& system, const Overheads& overheads)
    : system_(system),
      overheads_(overheads),
      library_(std::make_unique<Library>(library_of(system))),
      messages_(std::make_unique<NetworkSoftware>(network_software(overheads.network, system, true))),
      collectives_(std::make_unique<NetworkSoftware>(
          network_software(library_->name.substr(0, library_->name.find('-')), system, false))) {
  capacity_.resize(system.link_count());
  for (LinkId l = 0; l < capacity_.size(); ++l) capacity_[l] = system.usable(l);
}
LinkCost::~LinkCost() = default;

uint32_t LinkCost::resource(const std::string& name, double capacity) {
  const auto [at, fresh] = extra_.emplace(name, static_cast<uint32_t>(capacity_.size()));
  if (fresh) {
    capacity_.push_back(capacity);
    extra_names_.push_back(name);
  }
  return at->second;
}

std::string LinkCost::resource_name(uint32_t resource) const {
  const std::size_t links = system_.link_count();
  if (resource < links) return system_.link(resource).name;
  TANDEM_CHECK(resource - links < extra_names_.size());
  return extra_names_[resource - links];
}

namespace {

void put(std::map<uint32_t, double>& uses, const System& system, const Route& route, double weight) {
  for (const LinkId l : route.links) uses[resource_of(system, l)] += weight;
}

std::vector<Use> listed(const std::map<uint32_t, double>& uses) {
  std::vector<Use> out;
  out.reserve(uses.size());
  for (const auto& [link, weight] : uses) out.push_back({link, static_cast<float>(weight)});
  return out;
}

}  // namespace

Transfer LinkCost::message(VertexId from, VertexId to, Bytes bytes) {
  Transfer t;
  if (from == to || bytes.n <= 0) return t;
  const Route route = system_.route(from, to);
  const bool network = system_.node_of(from) != system_.node_of(to);
  const double efficiency = network ? 1 : overheads_.link_efficiency;
  t.latency =
      route.latency + Time::from_seconds(library_->message_base + route.staged * library_->staged_base);
  t.bytes = static_cast<double>(bytes.n);
  t.cap = route.cap * efficiency;
  std::map<uint32_t, double> uses;
  put(uses, system_, route, 1 / efficiency);
  t.uses = listed(uses);
  return t;
}

Transfer LinkCost::post(VertexId from, VertexId to, Bytes bytes) {
  Transfer t = message(from, to, bytes);
  const uint32_t sender = thread_of(from, to), receiver = thread_of(to, from);
  if (sender == kNoThread || t.bytes <= 0) return t;
  t.uses.push_back({sender, 0});
  t.uses.push_back({receiver, 0});
  resize(t, t.bytes);
  return t;
}

void LinkCost::resize(Transfer& posted, double bytes) const {
  posted.bytes = bytes;
  const NetworkSoftware& s = *messages_;
  if (!s.binds()) return;
  posted.uses.end()[-2].weight = static_cast<float>(s.per_byte(true, bytes) / s.send);
  posted.uses.end()[-1].weight = static_cast<float>(s.per_byte(false, bytes) / s.send);
}

uint32_t LinkCost::thread_of(VertexId v, VertexId peer) {
  const NetworkSoftware& s = *messages_;
  if (!s.binds()) return kNoThread;
  const VertexKind kind = system_.info(v).kind;
  const bool worker = kind == VertexKind::gpu || kind == VertexKind::tpu;
  const std::string number = s.threads > 1 ? fmt::format(" {}", system_.node_of(peer) % s.threads) : "";
  return resource(
      fmt::format("{}{} of node{}'s {}", s.thread, number, system_.node_of(v), worker ? "worker" : "server"),
      1 / s.send);
}

double LinkCost::reported(double seconds, const Harness& harness) const {
  return library_->reported(seconds, harness);
}

Transfer LinkCost::input(VertexId to, int64_t samples, Bytes stored, Bytes decoded, double decode_seconds) {
  Transfer t;
  if (samples <= 0 || decoded.n <= 0) return t;
  const VertexId host = system_.host_of(to);
  const HostInfo& info = system_.host();
  const auto payload = static_cast<double>(decoded.n);
  const double read = static_cast<double>(stored.n) / payload;
  std::map<uint32_t, double> uses;
  const auto on_node = [&](const char* what) { return fmt::format("node{} {}", system_.node_of(to), what); };
  if (read > 0 && info.shared_storage.bytes_per_second > 0) {
    uses[resource("shared storage", info.shared_storage.bytes_per_second)] += read;
  }
  if (read > 0 && info.local_storage.bytes_per_second > 0) {
    uses[resource(on_node("storage"), info.local_storage.bytes_per_second)] += read;
  }
  if (decode_seconds > 0 && info.cores > 0) {
    uses[resource(on_node("decoding cores"), info.cores * info.core_speed)] += decode_seconds / payload;
  }
  if (host != to) {
    const Route route = system_.route(host, to);
    put(uses, system_, route, 1 / overheads_.link_efficiency);
    t.latency = route.latency + Time::from_seconds(library_->message_base);
    t.cap = route.cap * overheads_.link_efficiency;
  }
  t.bytes = static_cast<double>((decoded * samples).n);
  t.uses = listed(uses);
  return t;
}

namespace {

/// A pattern under one protocol, before it knows the size.
struct Priced {
  bool possible = false;
  double latency = 0;  ///< seconds
  double seconds_per_byte = 0;
  std::map<uint32_t, double> uses;
};

Priced price(const Pattern& p, const std::map<uint32_t, double>& threads, const Protocol& protocol,
             const Library& library, const Overheads& overheads, const std::vector<double>& capacity) {
  Priced out;
  out.latency = protocol.base;
  double caps = 0, fabric = 0, least = 1;
  std::map<uint32_t, double>& uses = out.uses;
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    out.latency += p.steps[c] * protocol.step[c] + p.wire[c] * library.wire[c];
    if (p.load[c].empty()) continue;
    const bool network = c == static_cast<std::size_t>(HopClass::network);
    const bool on_fabric = c == static_cast<std::size_t>(HopClass::fabric);
    const double efficiency = protocol.efficiency[c] * p.efficiency * (on_fabric ? p.fabric_efficiency : 1) *
                              (network ? 1 : overheads.link_efficiency);
    if (efficiency <= 0) return out;
    least = std::min(least, efficiency);
    for (const auto& [link, weight] : p.load[c]) uses[link] += weight / efficiency;
    if (p.cap[c] > 0) caps = std::max(caps, 1 / (p.cap[c] * efficiency));
    if (on_fabric) {
      for (const auto& [link, weight] : p.load[c])
        fabric = std::max(fabric, weight / efficiency / capacity[link]);
    }
  }
  for (const auto& [thread, weight] : threads) uses[thread] += weight;
  double busiest = caps;
  for (const auto& [link, weight] : uses) busiest = std::max(busiest, weight / capacity[link]);
  // Between fast links the SMs that send also copy the rank's own chunk, in turn with sending.
  const double copy = fabric > 0 ? library.self_copy * p.self_copy / protocol.efficiency[0] : 0;
  out.seconds_per_byte = std::max(busiest, fabric + copy) + p.extra_time / least;
  out.possible = true;
  return out;
}

/// Reducing in the switch goes in rounds of `round` bytes through three stages at once (scatter, reduce,
/// gather), so that a buffer takes two rounds more than it has.
void in_rounds(Priced& p, double size, double round, const Library& library) {
  constexpr double fill = 2;
  // The cores of its channels copy every byte in and out.
  if (library.switch_channel_rate > 0)
    p.seconds_per_byte =
        std::max(p.seconds_per_byte, 1 / (library.switch_channels * library.switch_channel_rate));
  p.latency += fill * (library.switch_step + round * p.seconds_per_byte);
  p.latency += size / round * library.switch_step;
}

std::size_t worst_hop(const Pattern& p) {
  std::size_t worst = 0;
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    if (p.steps[c] > 0) worst = c;
  }
  return worst;
}

Transfer transfer_of(const Priced& p, double bytes) {
  Transfer t;
  t.latency = Time::from_seconds(p.latency);
  t.bytes = bytes;
  t.cap = p.seconds_per_byte > 0 ? 1 / p.seconds_per_byte : 0;
  t.uses = listed(p.uses);
  return t;
}

/// Lays out algorithms by name for one group.
class Layout {
 public:
  Layout(const System& system, const Library& library, const Group& group)
      : system_(system), library_(library), group_(group) {}

  bool offers(const std::string& name) const {
    return std::find(library_.algorithms.begin(), library_.algorithms.end(), name) !=
           library_.algorithms.end();
  }
  bool can(const std::string& name, CollKind kind) const {
    if (kind == CollKind::all_to_all && name == "direct") return true;
    if (name == "nvls") {
      return kind == CollKind::all_reduce && library_.switch_efficiency > 0 && group_.ranks() >= 4 &&
             has_switch(system_, group_);
    }
    if (name == "torus") {
      const bool reduces = kind == CollKind::all_reduce || kind == CollKind::reduce_scatter;
      return (reduces || kind == CollKind::all_gather) && offers("torus") && is_torus(system_, group_);
    }
    if (name == "ring") return kind != CollKind::all_to_all;
    if (native_tree(name, kind)) return true;
    const CollectiveAlgorithm* a = collectives_registry().find(name);
    return a != nullptr && a->supports(kind, shape());
  }
  /// As can(), for what the library would do by itself: its trees join nodes, inside one they are chains.
  bool suits(const std::string& name, CollKind kind) const {
    if (name == "double-tree" && library_.packs_rings) return native_tree(name, kind);
    return can(name, kind);
  }
  Pattern lay(const std::string& name, CollKind kind) {
    if (name == "direct" && kind == CollKind::all_to_all) {
      Pattern p = exchange_pattern(system_, group_);
      p.fabric_efficiency = library_.exchange_efficiency;
      return p;
    }
    if (name == "ring") return ring_pattern(system_, group_, kind, rings());
    if (name == "nvls") return switch_pattern(system_, group_);
    if (name == "torus") return torus_pattern(system_, group_, kind);
    if (native_tree(name, kind)) {
      Pattern p = tree_pattern(system_, group_, rings());
      p.efficiency = library_.tree_efficiency;
      // The library gives a tree no more of the network than a ring, though over two nodes it would need
      // less.
      const double least = busiest(ring_pattern(system_, group_, kind, rings()));
      const double own = busiest(p);
      for (auto& [link, weight] : p.load[static_cast<std::size_t>(HopClass::network)])
        weight *= std::max(1.0, least / own);
      return p;
    }
    return schedule_pattern(system_, group_, kind, collectives_registry().at(name));
  }

 private:
  /// The library's own double tree over nodes, rather than the schedule over single ranks.
  bool native_tree(const std::string& name, CollKind kind) const {
    return name == "double-tree" && kind == CollKind::all_reduce && group_.nodes() > 1 &&
           library_.packs_rings;
  }
  GroupShape shape() const {
    const std::size_t local = group_.uniform ? group_.by_node.front().size() : 1;
    return {static_cast<uint32_t>(group_.ranks()), static_cast<uint32_t>(local)};
  }
  /// Seconds per byte of the busiest network link.
  double busiest(const Pattern& p) const {
    double most = 0;
    for (const auto& [link, weight] : p.load[static_cast<std::size_t>(HopClass::network)]) {
      most = std::max(most, weight / system_.usable(link));
    }
    return most;
  }
  const std::vector<Ring>& rings() {
    if (rings_.empty()) rings_ = search_rings(system_, group_, library_.packs_rings);
    return rings_;
  }

  const System& system_;
  const Library& library_;
  const Group& group_;
  std::vector<Ring> rings_;
};

}  // namespace

const LinkCost::Patterns& LinkCost::patterns(CollKind kind, const std::string& algorithm,
                                             std::span<const VertexId> members) {
  auto key = std::make_tuple(kind, algorithm, std::vector<VertexId>(members.begin(), members.end()));
  auto& slot = patterns_[std::move(key)];
  if (slot) return *slot;
  // The library numbers its ranks as it likes: only the root has a place.
  std::vector<VertexId> sorted(members.begin(), members.end());
  std::sort(sorted.begin() + (kind == CollKind::broadcast || kind == CollKind::reduce ? 1 : 0), sorted.end());
  const Group group = make_group(system_, sorted);
  Layout layout(system_, *library_, group);
  auto out = std::make_unique<Patterns>();
  if (library_->tuned && kind != CollKind::all_to_all)
    out->tuner = Tuner::of(system_, group, library_->version);
  if (algorithm == "auto") {
    for (const std::string& name : library_->algorithms) {
      if (layout.suits(name, kind)) out->all.push_back(layout.lay(name, kind));
    }
    const std::string last_resort = kind == CollKind::all_to_all ? "direct" : "ring";
    if (out->all.empty()) out->all.push_back(layout.lay(last_resort, kind));
  } else {
    if (algorithm != "nvls" && algorithm != "direct" && algorithm != "torus")
      collectives_registry().at(algorithm);
    if (!layout.can(algorithm, kind)) {
      throw InputError(fmt::format("the algorithm \"{}\" cannot do {} over {} devices on {} nodes of {}",
                                   algorithm, schemes::name(kind), group.ranks(), group.nodes(),
                                   system_.name()));
    }
    out->all.push_back(layout.lay(algorithm, kind));
  }
  for (const Pattern& p : out->all) out->threads.push_back(threads(p));
  slot = std::move(out);
  return *slot;
}

std::map<uint32_t, double> LinkCost::threads(const Pattern& p) {
  std::map<uint32_t, double> out;
  const NetworkSoftware& s = *collectives_;
  if (!s.binds()) return out;
  for (const auto& [member, end] : p.ends) {
    const uint32_t thread =
        resource(fmt::format("{} of {}", s.thread, system_.vertex_name(member)), s.threads / s.send);
    out[thread] += end.sent + end.received * s.receive / s.send;
  }
  return out;
}

Transfer LinkCost::first(const Patterns& known, double size, std::string_view what, const Rank& rank,
                         Choice* chosen) const {
  double best = std::numeric_limits<double>::infinity();
  Priced winner;
  for (std::size_t i = 0; i < known.all.size(); ++i) {
    const Pattern& p = known.all[i];
    for (Protocol protocol : library_->protocols) {
      if (p.algorithm == "nvls") {
        // The switch reduces bulk stores only; its own figures stand for the fabric.
        if (protocol.name != library_->protocols.back().name) continue;
        protocol.base = protocol.step[0] = 0;
        protocol.efficiency[0] = library_->switch_efficiency;
      }
      Priced priced = price(p, known.threads[i], protocol, *library_, overheads_, capacity_);
      if (p.heads > 0)
        in_rounds(priced, size, switch_round(size, p.heads, library_->switch_channels), *library_);
      const double ranked = rank(p, protocol, priced.latency + size * priced.seconds_per_byte);
      if (!priced.possible || (winner.possible && ranked >= best)) continue;
      best = ranked;
      winner = std::move(priced);
      if (chosen != nullptr)
        *chosen = {p.algorithm, protocol.name, library_->spread[worst_hop(p)][size > 1 << 20]};
    }
  }
  if (!winner.possible)
    throw InputError(fmt::format("{} has no protocol for {} on {}", library_->name, what, system_.name()));
  return transfer_of(winner, size);
}

Transfer LinkCost::collective(CollKind kind, const std::string& algorithm, Bytes bytes,
                              std::span<const VertexId> members, Choice* chosen) {
  if (chosen != nullptr) *chosen = {};
  if (members.size() < 2 || bytes.n <= 0) return {};
  const Patterns& known = patterns(kind, algorithm, members);
  const auto size = static_cast<double>(bytes.n);
  const Rank rank = [&](const Pattern& p, const Protocol& protocol, double seconds) {
    if (!known.tuner) return seconds;
    const double expected = known.tuner->estimate(kind, p.algorithm, protocol.name, size);
    return std::isfinite(expected) ? expected
                                   : 1e9 + seconds;  // what was named, but the library would not take
  };
  return first(known, size, schemes::name(kind), rank, chosen);
}

Transfer LinkCost::exchange(Exchange what, Bytes bytes, std::span<const VertexId> members, Choice* chosen) {
  if (chosen != nullptr) *chosen = {};
  if (members.size() < 2 || bytes.n <= 0) return {};
  const Group group = make_group(system_, members);
  const std::size_t n = group.ranks();
  const double part = 1 / static_cast<double>(n);
  using Targets = std::vector<std::pair<std::size_t, double>>;
  Pattern p = sends_pattern(system_, group, [&](std::size_t i) -> Targets {
    if (what == Exchange::sendrecv) return {{(i + 1) % n, 1.0}};
    if (what == Exchange::gather) return i == 0 ? Targets{} : Targets{{0, part}};
    Targets out;
    for (std::size_t j = 1; i == 0 && j < n; ++j) out.emplace_back(j, part);
    return out;
  });
  p.fabric_efficiency = library_->exchange_efficiency;
  const auto fastest = [](const Pattern&, const Protocol&, double seconds) { return seconds; };
  Patterns known;
  known.threads.push_back(threads(p));
  known.all.push_back(std::move(p));
  return first(known, static_cast<double>(bytes.n), "grouped sends", fastest, chosen);
}

double LinkCost::least_seconds(CollKind kind, Bytes bytes, std::span<const VertexId> members) const {
  if (members.size() < 2 || bytes.n <= 0) return 0;
  const Group group = make_group(system_, members);
  const bool reduces = library_->switch_efficiency > 0 && has_switch(system_, group);
  return static_cast<double>(bytes.n) * least_seconds_per_byte(system_, group, kind, reduces);
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "sim/cost/layout.h"
#include "sim/cost/libraries.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/network_software.h"
#include "sim/cost/overlap.h"
#include "sim/cost/pattern_price.h"
#include "sim/cost/tuner.h"

namespace tandem::sim {

struct LinkCost::Patterns {
  std::vector<Laid> all;
  /// [pattern]: bytes on the threads that move the payload between nodes, per byte of it.
  std::vector<std::map<uint32_t, double>> threads;
  std::optional<Tuner> tuner;
};

/// Points into Patterns.
struct LinkCost::Winner {
  const Pattern* pattern = nullptr;
  const Protocol* protocol = nullptr;
  PatternPrice price;
};

namespace {

NetworkSoftware faster(NetworkSoftware s, double threads) {
  for (double* seconds : {&s.send, &s.receive, &s.message}) *seconds /= threads;
  return s;
}

}  // namespace

LinkCost::LinkCost(const System& system, const Overheads& overheads, const Speeds& speeds,
                   PricedCollectives* priced)
    : system_(system),
      overheads_(overheads),
      messages_(std::make_unique<NetworkSoftware>(
          faster(network_software(overheads.network, system, true), speeds.threads))) {
  Library library = library_of(system, speeds.library);
  collectives_ = std::make_unique<NetworkSoftware>(faster(
      network_software(library.name.substr(0, library.name.find('-')), system, false), speeds.threads));
  carry(library, *collectives_, system.transport_latency().seconds());
  library_ = std::make_unique<Library>(std::move(library));
  // With threads transfers use resources that each LinkCost numbers by itself.
  if (priced != nullptr && priced->of(system) && !collectives_->binds())
    shelf_ = priced->shelf(overheads, speeds);
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
  t.uses = uses_of(uses);
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
      core_share(v) / s.send);
}

double LinkCost::core_share(VertexId v) const {
  return system_.host(system_.kind_of(v)).core_speed / system_.host().core_speed;
}

double LinkCost::reported(double seconds, const Choice& choice, const Harness& harness) const {
  const double hidden = choice.overlap * (1 - 1.0 / std::max(harness.iterations, 1));
  return library_->reported(seconds - hidden, choice.blocks, harness);
}

Transfer LinkCost::read(VertexId to, const Read& r) {
  constexpr double kReadAhead = 128 << 10;
  Transfer t;
  const HostInfo& info = system_.host(system_.kind_of(system_.host_of(to)));
  const bool shared = info.shared_storage.bytes_per_second > 0 && !r.staged;
  const double bandwidth = (shared ? info.shared_storage : info.local_storage).bytes_per_second;
  const StorageLimits& limits = shared ? info.shared_limits : info.local_limits;
  if (r.samples * r.bytes <= 0 || r.missed <= 0 || bandwidth <= 0) return t;
  const std::string of = shared ? "shared storage" : fmt::format("node{} storage", system_.node_of(to));
  std::map<uint32_t, double> uses;  // by byte read
  uses[resource(of, bandwidth)] = 1;
  const double reads = r.files ? std::ceil(r.bytes / kReadAhead) : r.bytes / kReadAhead;
  if (limits.operations > 0) uses[resource(of + " operations", limits.operations)] = reads / r.bytes;
  if (limits.metadata > 0 && r.files) uses[resource(of + " metadata", limits.metadata)] = 1 / r.bytes;
  const double delay = (r.files ? 2 : 1) * limits.latency.seconds();
  const double threads = r.threads > 0 ? r.threads : std::max(info.cores, 1);
  if (delay > 0) t.cap = threads * r.bytes / delay;
  t.bytes = r.samples * r.bytes * r.missed;
  t.uses = uses_of(uses);
  return t;
}

Transfer LinkCost::decode(VertexId to, Bytes decoded, double seconds, double threads) {
  Transfer t;
  const HostInfo& info = system_.host(system_.kind_of(system_.host_of(to)));
  if (decoded.n <= 0 || seconds <= 0 || info.cores == 0) return t;
  t.bytes = static_cast<double>(decoded.n);
  const std::string cores = fmt::format("node{} decoding cores", system_.node_of(to));
  t.uses = uses_of({{resource(cores, info.cores * info.core_speed), seconds / t.bytes}});
  if (threads > 0) t.cap = threads * info.core_speed * t.bytes / seconds;
  return t;
}

Transfer LinkCost::input(VertexId to, Bytes bytes) {
  Transfer t;
  const VertexId host = system_.host_of(to);
  if (host == to || bytes.n <= 0) return t;
  std::map<uint32_t, double> uses;
  const Route route = system_.route(host, to);
  put(uses, system_, route, 1 / overheads_.link_efficiency);
  t.latency = route.latency + Time::from_seconds(library_->message_base);
  t.cap = route.cap * overheads_.link_efficiency;
  t.bytes = static_cast<double>(bytes.n);
  t.uses = uses_of(uses);
  return t;
}

const LinkCost::Patterns& LinkCost::patterns(CollKind kind, const std::string& algorithm,
                                             std::span<const VertexId> members) {
  auto key = std::make_tuple(kind, algorithm, std::vector<VertexId>(members.begin(), members.end()));
  auto& slot = patterns_[std::move(key)];
  if (slot) return *slot;
  // The library numbers its ranks as it likes: only the root has a place.
  std::vector<VertexId> sorted(members.begin(), members.end());
  std::sort(sorted.begin() + (kind == CollKind::broadcast || kind == CollKind::reduce ? 1 : 0), sorted.end());
  const Group group = make_group(system_, sorted);
  auto out = std::make_unique<Patterns>();
  if (library_->tuned && kind != CollKind::all_to_all)
    out->tuner = Tuner::of(system_, group, library_->version);
  out->all = lay_out({system_, *library_, group, kind}, algorithm);
  for (const Laid& laid : out->all) out->threads.push_back(threads(laid.pattern));
  slot = std::move(out);
  return *slot;
}

std::map<uint32_t, double> LinkCost::threads(const Pattern& p) {
  std::map<uint32_t, double> out;
  const NetworkSoftware& s = *collectives_;
  if (!s.binds()) return out;
  for (const auto& [member, end] : p.ends) {
    const uint32_t thread = resource(fmt::format("{} of {}", s.thread, system_.vertex_name(member)),
                                     s.threads * core_share(member) / s.send);
    out[thread] += end.sent + end.received * s.receive / s.send;
    threads_[member] = thread;
  }
  return out;
}

bool LinkCost::polls() const { return !collectives_->sleeps; }

double LinkCost::busy(const Transfer& collective, double seconds, VertexId member) const {
  const auto thread = threads_.find(member);
  if (thread == threads_.end() || !(seconds > 0)) return 1;
  double weight = 0;
  for (const auto* uses : {&collective.uses, &collective.resolved}) {
    for (const Use& use : *uses) weight += use.link == thread->second ? use.weight : 0;
  }
  return std::min(1.0, weight * collective.bytes / capacity_[thread->second] / seconds);
}

PatternPrice LinkCost::priced(const Laid& laid, const std::map<uint32_t, double>& threads,
                              const Protocol& protocol, double size) const {
  const Pattern& p = laid.pattern;
  PatternPrice out = price(p, threads, protocol, *library_, overheads_, capacity_);
  add_slices(out, size, p, protocol);
  if (p.tree_in_node) add_tree_correction(out, size);
  if (p.heads > 0) add_rounds(out, size, p, *library_);
  add_chunks(out, size, p, protocol, *library_);
  add_copies(out, size, p, protocol, *library_);
  return out;
}

LinkCost::Winner LinkCost::first(const Patterns& known, double size, std::string_view what,
                                 const Rank& rank) const {
  double best = std::numeric_limits<double>::infinity();
  Winner winner;
  for (std::size_t i = 0; i < known.all.size(); ++i) {
    const Laid& laid = known.all[i];
    double least = 0;  // what the largest message of a protocol takes that the library would not go on with
    for (const Protocol& protocol : laid.protocols) {
      const double most = protocol.most * laid.pattern.ll_channels / std::max(laid.pattern.message, 1e-12);
      const bool ended = most > 0 && size > most;
      PatternPrice p = priced(laid, known.threads[i], protocol, ended ? most : size);
      if (!p.possible) continue;
      const double seconds = p.seconds(ended ? most : size);
      if (ended) {
        least = std::max(least, seconds);
        continue;
      }
      p.latency += std::max(0.0, least - seconds);
      // As NCCL expects of a broadcast: base and one step, whatever its ring's length.
      const double hidden = overlap_of_calls(laid.pattern, protocol, *library_);
      const double ranked = rank(laid, protocol, std::max(seconds, least) - hidden);
      if (winner.pattern == nullptr || ranked < best) {
        best = ranked;
        winner = {&laid.pattern, &protocol, std::move(p)};
      }
      if (most > 0) break;  // the library asks for no more than whether it may
    }
  }
  if (winner.pattern == nullptr)
    throw InputError(fmt::format("{} has no protocol for {} on {}", library_->name, what, system_.name()));
  return winner;
}

LinkCost::Winner LinkCost::winner(CollKind kind, const std::string& algorithm, Bytes bytes,
                                  std::span<const VertexId> members) {
  const Patterns& known = patterns(kind, algorithm, members);
  const auto size = static_cast<double>(bytes.n);
  const Rank rank = [&](const Laid& laid, const Protocol& protocol, double seconds) {
    if (!known.tuner) return seconds;
    // What was named, but the library would not take, comes after whatever it would.
    if (laid.layout == nullptr || laid.layout->expected == nullptr) return 1e9 + seconds;
    const double expected = laid.layout->expected(*known.tuner, kind, protocol.name, size);
    return std::isfinite(expected) ? expected : 1e9 + seconds;
  };
  return first(known, size, schemes::name(kind), rank);
}

double LinkCost::spread(const Pattern& pattern, bool large) const {
  const std::size_t worst = worst_hop(pattern);
  const double of_library = library_->spread[worst][large ? 1 : 0], of_hosts = system_.staged_spread();
  if (worst != static_cast<std::size_t>(HopClass::host) || of_hosts == 0) return of_library;
  return std::expm1(std::hypot(std::log1p(of_library), 1.645 * of_hosts));
}

Transfer LinkCost::transfer(const Winner& winner, CollKind kind, Bytes bytes,
                            std::span<const VertexId> members, Choice* chosen) const {
  const auto size = static_cast<double>(bytes.n);
  if (chosen != nullptr) {
    const bool large = size > 1 << 20;
    *chosen = {winner.pattern->algorithm, winner.protocol->name, spread(*winner.pattern, large),
               overlap_of_calls(*winner.pattern, *winner.protocol, *library_)};
  }
  Transfer t = transfer_of(winner.price, size);
  const VertexId first = members.front();
  if (system_.info(first).device < 0) return t;
  const Running running{kind, static_cast<double>(members.size()), winner.pattern->heads > 0,
                        winner.protocol->name, winner.price.seconds_per_byte};
  occupy(t, running, *library_, system_.device(first));
  if (chosen != nullptr && library_->block_start > 0) {
    const PatternPrice bulk =
        price(*winner.pattern, {}, library_->protocols.back(), *library_, overheads_, capacity_);
    Transfer whole;
    occupy(whole, {kind, running.ranks, false, "simple", bulk.seconds_per_byte}, *library_,
           system_.device(first));
    chosen->blocks = blocks_of(size, winner.protocol->name, running.ranks, whole.units);
  }
  return t;
}

Transfer LinkCost::collective(CollKind kind, const std::string& algorithm, Bytes bytes,
                              std::span<const VertexId> members, Choice* chosen) {
  if (chosen != nullptr) *chosen = {};
  if (members.size() < 2 || bytes.n <= 0) return {};
  if (shelf_ == nullptr || chosen != nullptr)
    return transfer(winner(kind, algorithm, bytes, members), kind, bytes, members, chosen);
  PricedCollectives::Key key(bytes.n, kind, algorithm, {members.begin(), members.end()});
  if (const auto known = shelf_->find(key)) return *known;
  const Transfer out = transfer(winner(kind, algorithm, bytes, members), kind, bytes, members, nullptr);
  shelf_->keep(std::move(key), out);
  return out;
}

double LinkCost::crossings(CollKind kind, const std::string& algorithm, Bytes bytes,
                           std::span<const VertexId> members, LinkId link) {
  if (members.size() < 2 || bytes.n <= 0) return 0;
  const Winner chosen = winner(kind, algorithm, bytes, members);
  if (chosen.pattern->ring_hop <= 0) return 0;
  double crossed = 0;
  for (const uint32_t way :
       std::set{resource_of(system_, link), resource_of(system_, system_.reverse(link))}) {
    for (const auto& load : chosen.pattern->load) {
      const auto at = load.find(way);
      if (at != load.end()) crossed += at->second;
    }
  }
  return crossed / chosen.pattern->ring_hop;
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
  share_channels(p, group, *library_, 1, what == Exchange::sendrecv ? 1 : static_cast<double>(n - 1));
  p.algorithm = "direct";
  const auto fastest = [](const Laid&, const Protocol&, double seconds) { return seconds; };
  Patterns known;
  known.threads.push_back(threads(p));
  known.all.push_back({nullptr, std::move(p), message_protocols(*library_)});
  return transfer(first(known, static_cast<double>(bytes.n), "grouped sends", fastest), CollKind::shift,
                  bytes, members, chosen);
}

double LinkCost::least_seconds(CollKind kind, Bytes bytes, std::span<const VertexId> members) const {
  if (members.size() < 2 || bytes.n <= 0) return 0;
  const Group group = make_group(system_, members);
  const bool reduces = library_->switch_efficiency > 0 && has_switch(system_, group);
  return static_cast<double>(bytes.n) * least_seconds_per_byte(system_, group, kind, reduces);
}

}  // namespace tandem::sim

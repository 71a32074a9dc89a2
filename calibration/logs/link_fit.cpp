// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/link_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "base/statistics.h"

namespace tandem::calibration {
namespace {

/// Values of peer_access.reach; a pair needs one of them for direct access.
constexpr std::array<const char*, 4> kReaches = {"none", "switch", "host_bridge", "system"};
constexpr int kCabled = 0, kHostBridge = 2, kSystem = 3;
constexpr double kOwnFigure = 0.1;  // from the median of its class: a pair gets its own figure
constexpr double kFarOff = 0.25;    // from what was measured: named
constexpr std::size_t kMostPairsNamed = 3;

double at(const PairMatrix& m, std::size_t i, std::size_t j) {
  return i < m.size() && j < m[i].size() ? m[i][j] : 0;
}

/// The narrowest of some links.
LinkId narrowest(const System& system, const std::vector<LinkId>& links) {
  return *std::min_element(links.begin(), links.end(),
                           [&](LinkId a, LinkId b) { return system.usable(a) < system.usable(b); });
}

double flow_rate(const System& system, const Route& route) {
  double rate = route.cap > 0 ? route.cap : 1e300;
  for (const LinkId link : route.links) rate = std::min(rate, system.usable(link));
  return rate;
}

class LinkFitter {
 public:
  LinkFitter(LinkTests tests, Json document, std::vector<std::string>& notes)
      : tests_(std::move(tests)), document_(std::move(document)), notes_(notes) {}
  FittedLinks run();

 private:
  struct Pair {
    std::size_t from = 0, to = 0;
    int needs = kCabled;            ///< index into kReaches
    bool far = false;               ///< on two sockets
    double access = 0;              ///< as in LinkTests
    double direct = 0, staged = 0;  ///< bytes/s with and without access; 0: not measured
  };
  using Rates = std::vector<double>;

  VertexId vertex(std::size_t i) const { return open().vertex(0, open().accelerators()[i]); }
  const System& open() const { return systems_.back(); }
  Route direct(const Pair& p) const { return open().route(vertex(p.from), vertex(p.to)); }
  std::string name(const Pair& p) const {
    return fmt::format("{} to {}", open().info(vertex(p.from)).name, open().info(vertex(p.to)).name);
  }
  double before(const std::string& kind) const;
  void set(const std::string& path, double before, double after, std::size_t figures);
  Pair pair(std::size_t i, std::size_t j) const;
  void find_pairs();
  void change_reach();
  void fractions();
  void staged_caps();
  void host_caps();
  void raise(bool direct_ways, double rate, const std::vector<const Pair*>& of);
  void single_pairs(bool direct_ways);
  void differences();

  LinkTests tests_;
  Json document_;
  std::vector<std::string>& notes_;
  std::vector<System> systems_;  ///< the system with each of kReaches
  std::vector<Pair> pairs_;
  std::vector<LinkFit> fits_;
  int reach_ = 0;
};

double LinkFitter::before(const std::string& kind) const {
  for (LinkId l = 0; l < open().link_count(); ++l) {
    if (open().link_kind(l) == kind) return open().link(l).achieved;
  }
  return 0;
}

void LinkFitter::set(const std::string& path, double before, double after, std::size_t figures) {
  const bool rate = path.starts_with("peer_access.");
  document_.set_path(path, rate ? fmt::format("{:.4g}GB/s", after * 1e-9) : fmt::format("{:.4g}", after),
                     document_.place(), true);
  const auto known =
      std::find_if(fits_.begin(), fits_.end(), [&](const LinkFit& f) { return f.path == path; });
  if (known != fits_.end()) {
    known->after = after;
  } else {
    fits_.push_back({path, before, after, figures});
  }
}

LinkFitter::Pair LinkFitter::pair(std::size_t i, std::size_t j) const {
  Pair p{.from = i, .to = j, .access = at(tests_.access, i, j)};
  const VertexId a = vertex(i), b = vertex(j);
  while (p.needs < kSystem && systems_[static_cast<std::size_t>(p.needs)].route(a, b).staged > 0) ++p.needs;
  p.far = open().info(a).numa != open().info(b).numa;
  const double on = at(tests_.peer, i, j), off = at(tests_.staged, i, j);
  const bool cabled = p.needs == kCabled;
  p.direct = p.access >= 0 ? on : 0;
  // Without access the test with peers on repeats the staged one.
  p.staged = off > 0 ? off : p.access < 0 || (p.access == 0 && !cabled) ? on : 0;
  if (p.direct == 0 && p.access == 0 && !cabled) p.direct = off;
  return p;
}

void LinkFitter::find_pairs() {
  const std::size_t n = tests_.count();
  if (n > open().accelerators().size()) {
    throw InputError(fmt::format("the measurements speak of {} devices, a node of {} has {}", n,
                                 open().name(), open().accelerators().size()));
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j) pairs_.push_back(pair(i, j));
    }
  }
}

/// The file's reach follows what the devices have: it is what the library will find.
void LinkFitter::change_reach() {
  const int own = reach_;
  int most = kSystem, wanted = own;
  std::size_t lost = 0, gained = 0, beyond = 0;
  for (const Pair& p : pairs_) {
    if (p.access < 0 && p.needs == kCabled)
      throw InputError(fmt::format(
          "{}: no peer access was found, but {} joins them by {}; take that link out of the file, or measure "
          "again",
          name(p), open().name(), open().link_kind(direct(p).links.front())));
    if (p.access < 0) most = std::min(most, p.needs - 1);
    if (p.access < 0 && p.needs <= own) ++lost;
    // What the driver offers beyond a reach above "none" the library may still leave unused.
    const bool grows = p.access > 0 && p.direct > 0 && p.needs > own && (own == 0 || p.staged == 0);
    if (grows) ++gained, wanted = std::max(wanted, p.needs);
  }
  reach_ = std::min(wanted, most);
  for (Pair& p : pairs_) {
    if (p.access <= 0 || p.direct <= 0 || p.needs <= reach_) continue;
    ++beyond;
    if (p.staged == 0) p.staged = p.direct;
  }
  const std::string change =
      fmt::format("peer_access.reach: {} -> {}", kReaches[static_cast<std::size_t>(own)],
                  kReaches[static_cast<std::size_t>(reach_)]);
  if (lost > 0)
    notes_.push_back(
        fmt::format("{} pairs lack the peer access that {} expects: {}", lost, open().name(), change));
  if (gained > 0 && reach_ > own)
    notes_.push_back(
        fmt::format("{} pairs have peer access that {} does not expect: {}", gained, open().name(), change));
  if (beyond > 0)
    notes_.push_back(fmt::format(
        "{} pairs have peer access that a reach of \"{}\" leaves unused: what they reach without it "
        "counts, where it was measured",
        beyond, kReaches[static_cast<std::size_t>(reach_)]));
  if (reach_ != own)
    document_.set_path("peer_access.reach", kReaches[static_cast<std::size_t>(reach_)], document_.place(),
                       true);
}

/// Of links that devices reach each other by without a processor between, and of those to the host.
void LinkFitter::fractions() {
  std::map<std::string, Rates> peers, hosts;
  const auto add = [&](std::map<std::string, Rates>& to, const Route& route, double rate) {
    if (route.links.empty() || rate <= 0) return;
    const LinkId link = narrowest(open(), route.links);
    to[std::string(open().link_kind(link))].push_back(rate / open().link(link).bandwidth.bytes_per_second);
  };
  for (const Pair& p : pairs_) {
    if (p.needs < kHostBridge) add(peers, direct(p), p.direct);
  }
  for (std::size_t i = 0; i < tests_.count(); ++i) {
    const VertexId host = open().host_of(vertex(i));
    if (i < tests_.to_device.size()) add(hosts, open().route(host, vertex(i)), tests_.to_device[i]);
    if (i < tests_.from_device.size()) add(hosts, open().route(vertex(i), host), tests_.from_device[i]);
  }
  for (auto& [kind, values] : hosts) peers.emplace(kind, values);  // pairs speak first
  for (const auto& [kind, values] : peers) {
    const double after = median(values);
    if (after > 1) {
      notes_.push_back(
          fmt::format("links.{}: {:.0f} % of the nominal bandwidth was measured; taken as 100 %. Are its "
                      "bandwidth and its number of cables right?",
                      kind, 100 * after));
    }
    set("links." + kind + ".achieved", before(kind), std::min(1.0, after), values.size());
  }
}

/// Links on the ways of these pairs that the file has too narrow for what passed them.
void LinkFitter::raise(bool direct_ways, double rate, const std::vector<const Pair*>& of) {
  const System now = System::from_json(document_, {{"peer_access.reach", direct_ways ? "system" : "none"}});
  for (const Pair* p : of) {
    for (const LinkId link : now.route(vertex(p->from), vertex(p->to)).links) {
      const std::string path = fmt::format("links.{}.achieved", now.link_kind(link));
      const bool done = std::any_of(fits_.begin(), fits_.end(), [&](const LinkFit& f) {
        return f.path == path && f.after >= 0.999 * rate / now.link(link).bandwidth.bytes_per_second;
      });
      if (now.usable(link) >= 0.999 * rate || done) continue;
      set(path, now.link(link).achieved, std::min(1.0, rate / now.link(link).bandwidth.bytes_per_second),
          of.size());
    }
  }
}

/// Copies through the host's memory.
void LinkFitter::staged_caps() {
  Rates near, far;
  std::vector<const Pair*> near_pairs, far_pairs;
  for (const Pair& p : pairs_) {
    if (p.staged <= 0) continue;
    const bool sockets = p.needs == kSystem || (p.needs == kCabled && p.far);
    (sockets ? far : near).push_back(p.staged);
    if (p.needs > kCabled) (sockets ? far_pairs : near_pairs).push_back(&p);
  }
  if (near.empty() && far.empty()) return;
  const Json* was = document_.at("peer_access").find("staged_cap");
  const Json* was_far = document_.at("peer_access").find("staged_cap_sockets");
  const auto old = [](const Json* json) {
    return json != nullptr ? json->as_bandwidth().bytes_per_second : 0;
  };
  const double before = old(was), before_far = was_far != nullptr ? old(was_far) : before;
  const double of_near = median(near.empty() ? far : near), of_far = median(far.empty() ? near : far);
  const bool two = was_far != nullptr || std::abs(of_far / of_near - 1) > 0.02;
  set("peer_access.staged_cap", before, of_near, near.empty() ? far.size() : near.size());
  if (two) set("peer_access.staged_cap_sockets", before_far, of_far, far.empty() ? near.size() : far.size());
  raise(false, of_near, near_pairs);
  raise(false, of_far, far_pairs);
}

/// Direct access through a processor: what it forwards, and between two of them their link.
void LinkFitter::host_caps() {
  Rates near, far;
  std::vector<const Pair*> near_pairs, far_pairs;
  std::set<std::string, std::less<>> used;  // link classes that pairs on one socket cross
  for (const Pair& p : pairs_) {
    if (p.direct <= 0 || p.needs < kHostBridge) continue;
    (p.needs == kSystem ? far : near).push_back(p.direct);
    (p.needs == kSystem ? far_pairs : near_pairs).push_back(&p);
    for (const LinkId l : direct(p).links) {
      if (p.needs != kSystem) used.emplace(open().link_kind(l));
    }
  }
  if (near.empty() && far.empty()) return;
  const double of_near = median(near.empty() ? far : near), of_far = median(far.empty() ? near : far);
  const Json* was = document_.at("peer_access").find("through_host_cap");
  set("peer_access.through_host_cap", was != nullptr ? was->as_bandwidth().bytes_per_second : 0,
      std::max(of_near, of_far), near.empty() ? far.size() : near.size());
  raise(true, of_near, near_pairs);
  raise(true, of_far, far_pairs);
  if (near.empty() || far.empty() || of_far > 0.98 * of_near) return;
  std::vector<LinkId> between;
  for (const LinkId l : direct(*far_pairs.front()).links) {
    if (!used.contains(open().link_kind(l))) between.push_back(l);
  }
  if (between.empty()) return;
  const LinkId socket = narrowest(open(), between);
  set(fmt::format("links.{}.achieved", open().link_kind(socket)), open().link(socket).achieved,
      std::min(1.0, of_far / open().link(socket).bandwidth.bytes_per_second), far.size());
}

/// Pairs whose own figure is far from that of their class.
void LinkFitter::single_pairs(bool direct_ways) {
  const char* key = direct_ways ? "direct_pairs" : "staged_pairs";
  const System now = System::from_json(document_, {{"peer_access.reach", direct_ways ? "system" : "none"}});
  Json caps = Json::make_object(document_.place());
  for (const Pair& p : pairs_) {
    const Route route = now.route(vertex(p.from), vertex(p.to));
    const double measured = route.staged > 0 ? p.staged : p.direct;
    if (measured <= 0 || (route.staged == 0) != direct_ways) continue;
    if (std::abs(flow_rate(now, route) / measured - 1) <= kOwnFigure) continue;
    caps.set(fmt::format("{}>{}", open().info(vertex(p.from)).name, open().info(vertex(p.to)).name),
             Json::make_text(fmt::format("{:.4g}GB/s", measured * 1e-9), document_.place()));
    if (p.needs > kCabled) raise(direct_ways, measured, {&p});
  }
  if (caps.members().empty()) return;
  notes_.push_back(
      fmt::format("peer_access.{}: {} pairs are far from their median and have their own figures", key,
                  caps.members().size()));
  Json peers = document_.at("peer_access");
  peers.set(key, std::move(caps));
  document_.set("peer_access", std::move(peers));
}

/// Pairs that the file, which has one figure for all links of a class, gives another rate than was measured.
void LinkFitter::differences() {
  const System now = System::from_json(document_);
  std::string list;
  std::size_t off = 0, unused = 0;
  for (const Pair& p : pairs_) {
    const Route route = now.route(vertex(p.from), vertex(p.to));
    const double measured = route.staged > 0 ? p.staged : p.direct;
    if (measured <= 0 && std::max(p.staged, p.direct) > 0) ++unused;
    const double rate = flow_rate(now, route);
    if (measured <= 0 || std::abs(rate / measured - 1) <= kFarOff) continue;
    if (off++ < kMostPairsNamed)
      list += fmt::format("{}{} {:.3g} GB/s, here {:.3g}", list.empty() ? "" : ", ", name(p), measured * 1e-9,
                          rate * 1e-9);
  }
  if (off > 0)
    notes_.push_back(fmt::format(
        "{} pairs were measured at another rate than the file can say, which has one "
        "median for all links of a class: {}{}",
        off, list, off > kMostPairsNamed ? fmt::format(" and {} more", off - kMostPairsNamed) : ""));
  if (unused > 0)
    notes_.push_back(fmt::format(
        "{} pairs were measured only in the way that this system does not take between them: their "
        "links stay as they were",
        unused));
}

FittedLinks LinkFitter::run() {
  if (document_.find("peer_access") == nullptr)
    document_.set("peer_access", Json::make_object(document_.place()));
  const Json& peers = document_.at("peer_access");
  const std::string reach = peers.text("reach", "switch");
  for (const char* each : kReaches) {
    if (reach == each) reach_ = static_cast<int>(systems_.size());
    systems_.push_back(System::from_json(document_, {{"peer_access.reach", each}}));
  }
  order_by_bus(tests_, notes_);
  find_pairs();
  change_reach();
  fractions();
  staged_caps();
  host_caps();
  if (fits_.empty())
    throw InputError(fmt::format("the measurements hold no figure of a link that {} has", open().name()));
  single_pairs(false);
  single_pairs(true);
  differences();
  return {std::move(document_), std::move(fits_)};
}

}  // namespace

void order_by_bus(LinkTests& tests, std::vector<std::string>& notes) {
  const std::size_t n = tests.buses.size();
  const std::set<int64_t> distinct(tests.buses.begin(), tests.buses.end());
  if (n != tests.count() || distinct.size() != n || (n > 0 && *distinct.begin() < 0)) return;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tests.buses[a] < tests.buses[b]; });
  if (std::is_sorted(order.begin(), order.end())) return;
  for (PairMatrix* m :
       {&tests.access, &tests.peer, &tests.staged, &tests.peer_latency, &tests.staged_latency}) {
    if (m->empty()) continue;
    const PairMatrix was = *m;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) (*m)[i][j] = at(was, order[i], order[j]);
    }
  }
  for (std::vector<double>* v : {&tests.to_device, &tests.from_device}) {
    const std::vector<double> was = *v;
    for (std::size_t i = 0; i < v->size(); ++i) (*v)[i] = order[i] < was.size() ? was[order[i]] : 0;
  }
  const auto devices = tests.devices;
  for (std::size_t i = 0; i < n; ++i) tests.devices[i] = devices[order[i]];
  std::sort(tests.buses.begin(), tests.buses.end());
  std::string list;
  for (std::size_t i = 0; i < n; ++i) list += fmt::format("{}{}", i == 0 ? "" : ",", order[i]);
  notes.push_back(fmt::format(
      "the measurement counts devices as CUDA does, the system by their buses: gpu0 and on are its "
      "devices {}",
      list));
}

FittedLinks fit_links(LinkTests tests, Json document, std::vector<std::string>& notes) {
  System::from_json(document);  // what is wrong with the file is said before anything else
  return LinkFitter(std::move(tests), std::move(document), notes).run();
}

}  // namespace tandem::calibration

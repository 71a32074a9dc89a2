// SPDX-License-Identifier: Apache-2.0
#include "answers/elasticity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "answers/fitting.h"
#include "base/in_parallel.h"
#include "sim/bound/placement.h"
#include "sim/capacity.h"
#include "sim/simulation.h"

namespace tandem::answers {

namespace {

const Resource kCompute{"compute", 1, false, &Speeds::compute};
constexpr double kStep = 1.01;
// Where the order of arrival matters, two predictions also differ by chance: take a larger step, and of few
// workers no more rounds than such a rate needs. Of many a few rounds give it (sim/simulation.h).
constexpr double kStepByArrival = 1.05;
constexpr int32_t kRoundsByArrival = 60;
constexpr double kWideStep = 1.2;
constexpr double kResolved = 1e-3;  // smaller negative values are noise of steps that wait for input
constexpr double kUnlimited = 1e3;
constexpr double kSumOfAll = 1.1;         // no more
constexpr std::size_t kMostListed = 400;  // links in a report; those beyond are not listed
constexpr int64_t kMostEventsVaried = 3'000'000;
// If the prediction may have made fewer rounds than the changed ones.
constexpr int64_t kMostOfFewRounds = 800'000;

/// Adds a figure of the document or of one of its kinds of nodes, whose path begins with `prefix`.
void add_figure(const std::string& prefix, const std::string& path, const Json& value, bool bandwidth,
                std::vector<Resource>& out) {
  const double now = bandwidth ? value.as_bandwidth().bytes_per_second : value.as_real();
  if (!(now > 0)) return;
  auto at = std::find_if(out.begin(), out.end(), [&](const Resource& r) { return r.path == path; });
  if (at == out.end()) at = out.insert(out.end(), {path, now, bandwidth});
  at->value = std::max(at->value, now);
  at->figures.emplace_back(prefix + path, now);
}

void add_if_there(const std::string& prefix, const Json& document, const std::string& block,
                  const std::string& key, bool bandwidth, std::vector<Resource>& out) {
  const Json* in = document.find(block);
  const Json* value = in == nullptr ? nullptr : in->find(key);
  if (value != nullptr) add_figure(prefix, block + "." + key, *value, bandwidth, out);
}

/// The limit of storage, per node or shared.
void add_storage(const std::string& prefix, const Json& document, const std::string& which,
                 std::vector<Resource>& out) {
  add_if_there(prefix, document, "host", which + "_storage", true, out);
  add_if_there(prefix, document, "host", which + "_operations", false, out);
  add_if_there(prefix, document, "host", which + "_metadata", false, out);
}

/// The parts of a system file that describe nodes, with the prefixes of their paths.
std::vector<std::pair<std::string, const Json*>> node_parts(const Json& document) {
  std::vector<std::pair<std::string, const Json*>> out = {{"", &document}};
  if (const Json* kinds = document.find("node_kinds")) {
    for (const auto& [name, kind] : kinds->members()) out.emplace_back("node_kinds." + name + ".", &kind);
  }
  return out;
}

/// Whether step times depend on the order in which messages arrive.
bool by_arrival(const Question& q) {
  const Request p = request_on(q, q.system, q.devices.back());
  const auto program = Simulation(p).program(make_cluster(q.system, p.devices));
  return !is_static(*program) && !in_lock_step(*program);
}

/// Predicts the rate of a question with one resource perturbed.
class Perturbed {
 public:
  explicit Perturbed(const Question& q) : q_(q), by_arrival_(by_arrival(q)) {
    if (q.anchor) scale_ = anchored_scale(request_on(q, q.system, q.anchor->devices));
  }

  double rate(const Resource& r, double factor, int64_t devices,
              double (*of)(const Request&) = throughput) const {
    Request p = request_on(q_, q_.system, devices);
    if (p.anchor) p.anchor->scale = scale_;
    if (by_arrival_ && p.iterations == 0 && devices < kManyWorkers) p.iterations = kRoundsByArrival;
    if (r.speed != nullptr) {
      p.speeds.*r.speed = factor;
      return of(p);
    }
    const System system = perturbed(q_, r, factor);
    p.system = &system;
    return of(p);
  }

  /// Without what varies from step to step, which both predictions share.
  /// Whole numbers (channels of a collective, its algorithm) jump somewhere, and a jump within a small step
  /// looks steep: a slope that shrinks with a wider step is a jump.
  double slope(const Resource& r, int64_t devices) const {
    const double near = slope(r, devices, step());
    if (near >= 0) return near;
    const double wide = slope(r, devices, kWideStep);
    const bool falls = wide < near / 3 && wide < -kResolved;
    return falls ? wide : std::max(0.0, wide);
  }

  /// The unchanged rate with as many rounds as the changed ones; the report's rate if it has as many.
  double now(const Report& report) const {
    const bool same = (!by_arrival_ || report.setup.devices >= kManyWorkers) && q_.measured == nullptr &&
                      q_.then.empty() && !q_.anchor;
    return same ? report.rate.samples_per_second : rate(kCompute, 1, report.setup.devices);
  }

  /// The gain relative to `now`.
  double unlimited(const Resource& r, int64_t devices, double now) const {
    return gain(rate(r, r.most(), devices), now);
  }
  /// More of a resource can stay unused.
  static double gain(double rate, double now) {
    const double value = rate / now - 1;
    return value < 5e-7 ? 0 : value;
  }

  double step() const { return by_arrival_ ? kStepByArrival : kStep; }

 private:
  /// Both predictions at the same time.
  double slope(const Resource& r, int64_t devices, double up) const {
    const double factors[] = {up, 1 / up};
    double rates[2];
    in_parallel(2, 2, [&](std::size_t i) { rates[i] = rate(r, factors[i], devices, quiet_throughput); });
    const double value = std::log(rates[0] / rates[1]) / (2 * std::log(up));
    return std::abs(value) < 5e-5 ? 0 : value;  // below the resolution of a picosecond clock
  }

  const Question& q_;
  bool by_arrival_;
  std::optional<double> scale_;
};

/// The share of a step in which the resource is used.
double share_of(const Report& r, const Resource& resource) {
  const TimeShare& t = r.time.share;
  if (resource.path == "compute") return t.compute + t.waiting + t.idle;
  if (resource.path == "launch") return t.launch;
  if (resource.path == "server") return t.server;
  if (resource.path.rfind("host.", 0) == 0) return t.input;
  return t.exposed_communication;
}

/// "pcie" of "links.pcie.bandwidth", else "".
std::string link_kind(const Resource& r) {
  return r.path.rfind("links.", 0) == 0 ? r.path.substr(6, r.path.rfind('.') - 6) : "";
}

/// The kinds of links that carry anything in the report, busiest first.
std::map<std::string, double> busy_kinds(const System& system, const Report& report) {
  std::map<std::string, double> busy, out;
  for (const LinkUse& use : report.network.links) busy[use.name] = use.busy;
  for (LinkId id = 0; id < system.link_count(); ++id) {
    const auto link = busy.find(system.link(id).name);
    if (link == busy.end()) continue;
    double& most = out[std::string(system.link_kind(id))];
    most = std::max(most, link->second);
  }
  return out;
}

/// Utilisation of the busiest resource that is no link of the system: threads of a network library.
double busy_threads(const System& system, const Report& report) {
  std::map<std::string, double> busy;
  for (const LinkUse& use : report.network.links) busy[use.name] = use.busy;
  for (LinkId id = 0; id < system.link_count(); ++id) busy.erase(system.link(id).name);
  double most = 0;
  for (const auto& [name, share] : busy) most = std::max(most, share);
  return most;
}

/// What the host's cores do besides decoding; host.core_speed includes it.
bool of_cores(const Resource& r) { return r.path == "threads" || r.path == "launch"; }

/// The resources that can matter to the report, likeliest first.
std::vector<Resource> candidates(const Question& q, const Report& report) {
  const bool all_links = report.network.links.size() >= kMostListed;
  const auto kinds = busy_kinds(q.system, report);
  const double threads = busy_threads(q.system, report);
  std::vector<std::pair<double, Resource>> out;
  for (Resource& r : resources_of(q)) {
    const auto kind = kinds.find(link_kind(r));
    if (!link_kind(r).empty() && kind == kinds.end() && !all_links) continue;
    if (r.path == "server" && report.staleness.all.count() == 0 && report.time.share.server == 0) continue;
    if (r.path.rfind("host.", 0) == 0 && !q.input) continue;
    if (r.path == "host.core_speed" && report.time.share.input == 0) continue;  // decoding keeps up
    if (r.path == "threads" && threads == 0 && !all_links) continue;
    const double busy = r.path == "threads" ? threads : kind == kinds.end() ? 0.5 : kind->second;
    double likely = share_of(report, r) * (1 + busy);
    if (of_cores(r)) likely = std::max(likely, 2 * report.time.share.input);  // before host.core_speed
    out.emplace_back(likely, std::move(r));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Resource> sorted;
  for (auto& [share, resource] : out) sorted.push_back(std::move(resource));
  return sorted;
}

}  // namespace

double Resource::most() const {
  if (speed != nullptr) return kUnlimited;
  return std::min(kUnlimited, (bandwidth ? 1e18 : 1e3) / value);  // the largest that a system file accepts
}

std::string Resource::text(double factor) const {
  return bandwidth ? fmt::format("{:.17g}B/s", value * factor) : fmt::format("{:.17g}", value * factor);
}

void Resource::turn(System::Sets& sets, double factor) const {
  for (const auto& [figure, now] : figures)
    sets.emplace_back(
        figure, bandwidth ? fmt::format("{:.17g}B/s", now * factor) : fmt::format("{:.17g}", now * factor));
}

std::vector<Resource> resources_of(const Question& q) {
  const Json document = q.system.document(q.sets);
  const auto parts = node_parts(document);
  std::vector<Resource> out;
  for (const auto& [prefix, part] : parts) {
    const Json* links = part->find("links");
    if (links == nullptr) continue;
    for (const auto& [kind, spec] : links->members())
      add_figure(prefix, "links." + kind + ".bandwidth", spec.at("bandwidth"), true, out);
  }
  if (q.system.nodes() > 1) add_if_there("", document, "network", "bandwidth", true, out);
  for (const auto& [prefix, part] : parts) add_storage(prefix, *part, "local", out);
  add_storage("", document, "shared", out);
  if (q.input && q.system.host().cores > 0) {
    Resource cores{"host.core_speed", q.system.host().core_speed, false};
    for (const auto& [prefix, part] : parts) {
      const Json* host = part->find("host");
      if (host != nullptr) cores.figures.emplace_back(prefix + cores.path, host->real("core_speed", 1));
    }
    out.push_back(std::move(cores));
  }
  out.push_back({"compute", 1, false, &Speeds::compute});
  out.push_back({"launch", 1, false, &Speeds::launch});
  out.push_back({"server", 1, false, &Speeds::server});
  out.push_back({"latency", 1, false, &Speeds::latency});
  if (q.system.accelerators().size() > 1) out.push_back({"library", 1, false, &Speeds::library});
  if (q.system.nodes() > 1) out.push_back({"threads", 1, false, &Speeds::threads});
  if (q.system.packet_loss().kind == PacketLoss::Kind::tcp)
    out.push_back({"timers", 1, false, &Speeds::timers});
  return out;
}

System perturbed(const Question& q, const Resource& resource, double factor) {
  auto sets = q.sets;
  resource.turn(sets, factor);
  return q.system.with(sets);
}

Request request_on(const Question& q, const System& system, int64_t devices) {
  Request p = q.request(devices);
  p.system = &system;
  p.check_memory = false;
  p.measured = nullptr;  // measurements would stay valid whatever the links become
  if (p.anchor && p.anchor->system == nullptr) p.anchor->system = &q.system;
  return p;
}

double rate_with(const Question& q, const Resource& resource, double factor, int64_t devices) {
  return Perturbed(q).rate(resource, factor, devices);
}

namespace {

/// host.core_speed without launches and a network library's threads, which count by themselves.
void leave_own_part(std::vector<Elasticity>& all, std::size_t count) {
  const auto cores = std::find_if(all.begin(), all.end(),
                                  [](const Elasticity& e) { return e.resource.path == "host.core_speed"; });
  if (cores == all.end()) return;
  double own = *cores->at[count];
  for (const Elasticity& e : all) {
    if (of_cores(e.resource)) own -= *e.at[count];
  }
  constexpr double kNone = 0.005;  // of differences of slopes
  cores->at[count] = own < kNone ? 0 : own;
  if (own < kNone) cores->unlimited[count] = 0;
}

}  // namespace

std::vector<Elasticity> elasticities(const Question& q, bool check_memory) {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < q.devices.size(); ++i) {
    if (!check_memory || memory_on(q.request(q.devices[i]), q.devices[i]).may_fit()) fitting.push_back(i);
  }
  const auto most = std::max_element(q.devices.begin(), q.devices.end());
  if (fitting.empty()) {
    std::vector<Report> refused = {simulate(q.request(*most))};
    throw InputError(add_remedies(q, refused));
  }
  const Perturbed perturbed(q);
  std::vector<Elasticity> out;
  for (Resource& r : resources_of(q)) {
    out.push_back({std::move(r), {}, {}});
    out.back().at.resize(q.devices.size());
    out.back().unlimited.resize(q.devices.size());
  }
  for (const std::size_t i : fitting) {
    const double now = perturbed.rate(kCompute, 1, q.devices[i]);
    in_parallel(out.size(), std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2),
                [&](std::size_t k) {  // a slope takes two threads
                  Elasticity& e = out[k];
                  e.at[i] = perturbed.slope(e.resource, q.devices[i]);
                  e.unlimited[i] = perturbed.unlimited(e.resource, q.devices[i], now);
                });
  }
  for (const std::size_t i : fitting) leave_own_part(out, i);
  const std::size_t last = fitting.back();
  std::stable_sort(out.begin(), out.end(), [&](const Elasticity& a, const Elasticity& b) {
    return std::abs(*a.at[last]) > std::abs(*b.at[last]);
  });
  return out;
}

double elasticity_step(const Question& q) { return (by_arrival(q) ? kStepByArrival : kStep) - 1; }

bool quick_to_vary(const Question& q, const Report& report) {
  const bool few =
      q.iterations == 0 && report.setup.devices >= kManyWorkers && report.staleness.all.max() > 0;
  return report.evaluation.events <= (few ? kMostOfFewRounds : kMostEventsVaried) &&
         q.system.link_count() <= kMostLinksVaried;
}

void find_bottleneck(const Question& q, Report& report) {
  if (!quick_to_vary(q, report)) {
    report.notes.push_back(
        "bound by: the largest share of the time; the simulation takes too long to repeat with changes "
        "(--elasticities does)");
    return;
  }
  const Perturbed perturbed(q);
  Resource best;
  double most = -1, sum = 0, cores = 0;
  for (Resource& r : candidates(q, report)) {
    double slope = perturbed.slope(r, report.setup.devices);
    if (of_cores(r)) cores += slope;
    if (r.path == "host.core_speed") slope = std::max(0.0, slope - cores);
    sum += slope;
    if (slope > most) most = slope, best = std::move(r);
    if (most > kSumOfAll - std::max(sum, most)) break;  // none of the others can be larger
  }
  Report::Bottleneck& b = report.bottleneck;
  b.resource = best.path;
  b.share = best.path == "compute" ? report.time.share.compute : share_of(report, best);
  b.elasticity = most;
  double now = 0, without = 0;
  in_parallel(2, 2, [&](std::size_t i) {
    (i == 0 ? now : without) =
        i == 0 ? perturbed.now(report) : perturbed.rate(best, best.most(), report.setup.devices);
  });
  b.gain_if_unlimited = Perturbed::gain(without, now);
  b.explanation =
      fmt::format("1 % more of {} gives {:.2f} % more samples/s, no limit to it {:+.0f} %{}", best.path, most,
                  100 * *b.gain_if_unlimited,
                  report.network.busiest.name.empty()
                      ? ""
                      : fmt::format("; the busiest link is {} ({:.0f} %)", report.network.busiest.name,
                                    100 * report.network.busiest.busy));
}

}  // namespace tandem::answers

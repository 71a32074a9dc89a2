// SPDX-License-Identifier: Apache-2.0
#include "answers/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "answers/goodput.h"
#include "sim/bound/placement.h"
#include "sim/capacity.h"
#include "sim/habits.h"
#include "sim/simulation.h"

namespace tandem::answers {

namespace {

/// Devices of a node that the job uses.
int64_t devices_of_node(const Cluster& cluster, const System& system) {
  return cluster.per_node > 0 ? cluster.per_node : static_cast<int64_t>(system.accelerators().size());
}

/// Nodes that write a checkpoint: those that hold one copy of the state.
int64_t writers(const Question& q, int64_t devices) {
  const Request p = q.request(devices);
  const Cluster cluster = make_cluster(q.system, devices);
  const auto program = Simulation(p).program(cluster);
  const int64_t split = std::max<int64_t>(1, devices / replicas(*program));
  const int64_t spread = std::min(devices, checked_mul(split, program->sharding.state, "devices"));
  const int64_t each = devices_of_node(cluster, q.system);
  return (spread + each - 1) / each;
}

/// The job on fewer nodes: as many of the remaining devices as the scheme can use.
int64_t devices_without(const Question& q, int64_t devices, int64_t missing) {
  const Cluster cluster = make_cluster(q.system, devices);
  const Scheme& scheme = *q.scheme.scheme;
  const int64_t each = scheme.replica_devices == nullptr ? 1 : scheme.replica_devices(q.scheme.options);
  const int64_t left = devices - missing * devices_of_node(cluster, q.system);
  return left < each ? 0 : left / each * each;
}

/// Its rate; nothing if the scheme cannot run there.
std::optional<double> rate_without(const Question& q, int64_t devices, int64_t missing) {
  const int64_t left = devices_without(q, devices, missing);
  if (left < 1) return std::nullopt;
  try {
    return throughput(q.request(left));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Rates with fewer and fewer nodes, until such a state is too rare to matter.
std::vector<double> elastic_rates(const Question& q, const Report& report, FailingJob job) {
  constexpr std::size_t kMost = 8;
  constexpr double kRare = 0.001;  // of the time
  job.rates = {1};
  while (job.rates.size() < kMost && static_cast<int64_t>(job.rates.size()) < job.nodes &&
         (job.rates.size() == 1 || expected_times(job).waiting > kRare)) {
    const auto rate = rate_without(q, report.setup.devices, static_cast<int64_t>(job.rates.size()));
    if (!rate) break;
    job.rates.push_back(*rate / report.rate.samples_per_second);
  }
  return job.rates;
}

FailingJob failing_job(const Question& q, const Failures& f, const Report& report, double step, Goodput& g) {
  const Cluster cluster = make_cluster(q.system, report.setup.devices);
  FailingJob job;
  job.nodes = cluster.nodes;
  double failures = 0;  // a second, of all
  if (f.device_mtbf > 0) failures += static_cast<double>(report.setup.devices) / f.device_mtbf;
  if (f.node_mtbf > 0) failures += static_cast<double>(cluster.nodes) / f.node_mtbf;
  g.mtbf = 1 / failures;
  job.node_mtbf = g.mtbf * static_cast<double>(job.nodes);
  job.checkpoint = g.checkpoint;
  job.restart = g.restart;
  g.optimal_interval = optimal_interval(g.checkpoint, g.mtbf);
  const double wanted = f.every > 0 ? f.every : g.optimal_interval;
  g.interval_steps = f.every_steps > 0
                         ? f.every_steps
                         : static_cast<int64_t>(std::clamp(std::round(wanted / step), 1.0, 1e15));
  job.interval = g.interval = static_cast<double>(g.interval_steps) * step;
  job.repair = f.repair;
  job.spares = f.spares;
  return job;
}

/// Other remedies for failed nodes.
void add_alternatives(Goodput& g, const FailingJob& job, const std::vector<double>& elastic, uint64_t seed) {
  std::vector<std::pair<int64_t, bool>> all = {{0, false}};
  if (elastic.size() > 1) all.emplace_back(0, true);
  all.emplace_back(std::max<int64_t>(1, job.spares), false);
  for (const auto& [spares, shrinks] : all) {
    if (spares == g.spares && shrinks == g.elastic) continue;
    FailingJob other = job;
    other.spares = spares;
    other.rates = shrinks ? elastic : std::vector<double>{1};
    g.alternatives.push_back({spares, shrinks, expected_times(other).useful, simulated_goodput(other, seed)});
  }
}

}  // namespace

Bytes checkpoint_bytes(const Question& q) {
  const Request p = q.request(1);
  const bool half = habits_of(p).weights == MemoryHabits::Weights::half && element_bytes(q.precision) < 4;
  Bytes out = Bytes{half ? 2 : 4} * q.graph.parameter_elements();
  Optimizer kept = *q.optimizer;  // including pages of it in the host's memory
  kept.paged = false;
  for (const Layer& layer : q.graph.layers()) {
    for (const Parameter& parameter : layer.parameters)
      out += Bytes{kept.device_state(parameter.elements, parameter.rows, 1, parameter.hidden > 0)};
  }
  return out;
}

double checkpoint_seconds(const Question& q, int64_t devices) {
  const HostInfo& host = q.system.host();
  const double shared = host.shared_storage.bytes_per_second;
  const double local = host.local_storage.bytes_per_second;
  const auto bytes = static_cast<double>(checkpoint_bytes(q).n);
  if (shared > 0) return bytes / shared;
  if (!(local > 0))
    throw InputError(
        fmt::format("{} does not say how fast its storage is, so what a checkpoint costs is unknown: give "
                    "--checkpoint-cost, or --set host.shared_storage=10GB/s",
                    q.system.name()));
  return bytes / (local * static_cast<double>(writers(q, devices)));
}

void add_goodput(const Question& q, const Failures& f, Report& report) {
  if (!report.fits) return;
  Goodput g;
  g.checkpoint_bytes = checkpoint_bytes(q);
  const bool stored = f.checkpoint && f.restart;  // nothing depends on the storage
  const double transfer = stored ? 0 : checkpoint_seconds(q, report.setup.devices);
  g.checkpoint = f.checkpoint.value_or(transfer);
  g.restart = f.restart.value_or(transfer);
  const double step =
      static_cast<double>(report.setup.samples_per_iteration) / report.rate.samples_per_second;
  FailingJob job = failing_job(q, f, report, step, g);
  if (!f.checkpoint && job.nodes > 1 && q.system.host().shared_storage.bytes_per_second == 0)
    report.notes.push_back(
        "checkpoints go to the nodes' own disks and are lost with a failed node; --set "
        "host.shared_storage=10GB/s puts them on shared storage");
  g.repair = f.repair;
  g.spares = f.spares;
  g.elastic = f.elastic;
  if (f.repair > 0) {
    const std::vector<double> elastic = elastic_rates(q, report, job);
    if (elastic.size() > 1) {
      g.fewer_devices = devices_without(q, report.setup.devices, 1);
      g.fewer_samples_per_second = elastic[1] * report.rate.samples_per_second;
    } else if (f.elastic) {
      report.notes.push_back("the job cannot run with one node fewer, so it waits for failed nodes");
    }
    add_alternatives(g, job, elastic, report.evaluation.seed);
    if (f.elastic) job.rates = elastic;
  }
  const FailureTimes t = expected_times(job);
  g.times = {t.useful, t.checkpoints, t.repeated, t.restarts, t.waiting, t.fewer_nodes};
  g.share = t.useful;
  g.share_by_events = simulated_goodput(job, report.evaluation.seed);
  g.samples_per_second = g.share * report.rate.samples_per_second;
  report.goodput = g;
}

}  // namespace tandem::answers

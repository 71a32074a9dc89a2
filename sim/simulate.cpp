// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/statistics.h"
#include "schemes/setup/uneven_batches.h"
#include "sim/anchor.h"
#include "sim/batch_split.h"
#include "sim/bound/placement.h"
#include "sim/capacity.h"
#include "sim/cost/machine.h"
#include "sim/explain.h"
#include "sim/host_memory.h"
#include "sim/memory/memory.h"
#include "sim/networks.h"
#include "sim/simulation.h"

namespace tandem::sim {

namespace {

/// Larger groups are priced from a few of their members, which a fault would make different from the rest.
constexpr int64_t kMostDifferent = 256;

void check_arguments(const Request& p) {
  if (p.job.batch < 1)
    throw InputError(fmt::format("batch {} is not a positive number of samples", p.job.batch));
  if (p.devices < 1) throw InputError(fmt::format("{} devices: at least one is needed", p.devices));
  if (!p.system->uniform() && p.devices > kMostDifferent)
    throw InputError(
        fmt::format("faults of single nodes and links are simulated with up to {} devices, not {}; "
                    "without node2/ a fault strikes every node",
                    kMostDifferent, p.devices));
  if (p.system->kinds().size() > 1 && MachineProfile::find(p.profile, p.job.precision) != nullptr)
    throw InputError(fmt::format("{} has {} kinds of nodes, but the profile {} is of one machine",
                                 p.system->name(), p.system->kinds().size(), p.profile));
  for (const DeviceSort& sort : device_sorts(*p.system, grown_cluster(*p.system, p.devices)))
    check_precision(p.job.precision, p.system->device(sort.first), p.profile);
}

/// The question's inputs.
Report asked(const Request& p) {
  Report r;
  r.setup.devices = p.devices;
  r.setup.batch_per_device = p.job.batch;
  r.evaluation.seed = p.seed;
  r.basis.recipe = p.job.scheme->recipe.name;
  r.setup.inputs = resolved_inputs(p);
  for (const std::string& fault : p.system->faults()) r.notes.push_back("fault: " + fault);
  return r;
}

/// The memory of a prediction's programs, each computed once.
class Memories {
 public:
  Memories(const Request& p, const Simulation& simulation) : p_(p), simulation_(simulation) {}
  const std::vector<RoleMemory>& of(const Cluster& cluster, const std::shared_ptr<const Program>& program) {
    auto at = known_.find(program);
    if (at == known_.end()) at = known_.emplace(program, memory_of(p_, simulation_, cluster, *program)).first;
    return at->second;
  }

 private:
  const Request& p_;
  const Simulation& simulation_;
  std::map<std::shared_ptr<const Program>, std::vector<RoleMemory>> known_;
};

void add_memory(Report& r, Memories& memories, const Cluster& cluster,
                const std::shared_ptr<const Program>& program) {
  r.memory_by_role = memories.of(cluster, program);
  r.memory = largest(r.memory_by_role);
}

/// Notes on uncertain assumptions of the memory prediction.
void note_memory(Report& r, const Request& p, const Program& program) {
  const std::string sets = "--set host.memory=512GiB says it";
  if (r.memory.node.capacity.n == 0 && uses_host(program, r.memory_by_role))
    r.notes.push_back(
        fmt::format("how much memory the hosts of {} have is unknown: that they hold {} is not checked; {}",
                    p.system->name(), to_text(r.memory.node.needed), sets));
  const Recipe& recipe = p.job.scheme->recipe;
  if (!recipe.memory_known)
    r.notes.push_back(fmt::format(
        "nothing is known of what the {} recipe keeps in memory: what is told is of eager PyTorch, and the "
        "largest batch may be several times smaller (or larger)",
        recipe.name));
}

/// Notes the batches that a split by speed gave, and what the training must do about it.
void note_batches(Report& r, const Request& p, const Simulation& simulation, const Cluster& cluster) {
  const auto batches = simulation.batches(cluster);
  if (!batches) return;
  const std::string how = p.job.batches.empty() ? "batch split by speed: " : "batches: ";
  for (std::string& note : uneven_notes(p.job, how + split_text(p, cluster, batches->samples)))
    r.notes.push_back(std::move(note));
}

/// Notes how a coordinator divides a step's gradients.
double all_reduces(const Request& p, const Program& program) {
  if (p.job.scheme->overheads.cycle.ps == 0 || p.devices == 1) return 0;
  const auto& ops = program.roles[0].ops;
  return static_cast<double>(std::count_if(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::collective && op.payload == Payload::gradients;
  }));
}

void add_rates(Report& r, const Request& p, const Simulated& run) {
  r.evaluation.evaluator = run.trace.evaluator;
  r.evaluation.reason = run.trace.reason;
  r.evaluation.events = run.trace.events;
  r.network.all_reduces_per_step = all_reduces(p, *run.program);
  r.rate.samples_per_second = run.rate;
  r.rate.tokens_per_second = run.rate * static_cast<double>(p.job.graph->tokens_per_sample());
  r.iteration.median = quantile(run.lengths, 0.5);
  r.iteration.p05 = quantile(run.lengths, 0.05);
  r.iteration.p95 = quantile(run.lengths, 0.95);
  r.staleness.all = run.trace.staleness;
  r.staleness.by_worker = run.trace.staleness_by_worker;
}

/// The fewest devices that the scheme can use and that hold the model; beyond one node whole nodes, since a
/// few devices of the last one would not share its network cards as the others do.
int64_t speedup_base(const Request& p, const std::function<MemoryUse(int64_t)>& memory) {
  const Scheme& scheme = *p.job.scheme->scheme;
  const int64_t each = scheme.replica_devices == nullptr ? 1 : scheme.replica_devices(p.job.scheme->options);
  const int64_t fewest = p.check_memory ? fewest_devices(p, memory) : each;
  if (fewest == 0) return p.devices;  // this number and no fewer were asked for
  const auto node = static_cast<int64_t>(p.system->accelerators().size());
  const int64_t whole = fewest > node ? (fewest + node - 1) / node * node : fewest;
  return std::min(whole % each == 0 ? whole : fewest, p.devices);
}

/// For a job that `base` devices train at `rate` by itself.
void add_speedup(Report& r, int64_t base, double rate) {
  r.scaling.speedup = r.rate.samples_per_second / rate;
  r.scaling.base_devices = base;
  r.scaling.efficiency = r.scaling.speedup * static_cast<double>(base) / static_cast<double>(r.setup.devices);
}

struct ScaledRun {
  Simulated run;
  double scale = 1;  ///< of compute costs
};

/// Simulates the request and explains its rate.
ScaledRun add_run(Report& r, const Request& p, const Simulation& simulation) {
  const auto [scale, met] = fit_anchor(p, simulation, r.notes);
  ScaledRun out{simulation.run(p.devices, scale, true, p.timeline), scale};
  add_rates(r, p, out.run);
  explain(r, p, simulation, out.run, met);
  return out;
}

/// Memory, and where the model fits the rate.
std::optional<ScaledRun> add_fit_and_run(Report& r, const Request& p, const Simulation& simulation,
                                         Memories& memories) {
  const Cluster cluster = make_cluster(*p.system, p.devices);
  const auto program = simulation.program(cluster);
  add_memory(r, memories, cluster, program);
  note_batches(r, p, simulation, cluster);
  r.setup.samples_per_iteration = std::llround(samples_of_all(*program));
  r.fits = !p.check_memory || r.memory.may_fit();
  note_memory(r, p, *program);
  if (!r.fits) return {};
  ScaledRun out = add_run(r, p, simulation);
  if (out.run.program != program) add_memory(r, memories, cluster, out.run.program);  // of gathered buckets
  return out;
}

/// For networks trained alternately (sim/networks.h).
Report simulate_in_turn(const Request& p) {
  Report r = asked(p);
  r.setup.samples_per_iteration = checked_mul(p.job.batch, p.devices, "the samples of a step");
  r.memory = memory_on(p, p.devices);
  r.memory_by_role = {{"worker", p.devices, r.memory}};
  r.fits = !p.check_memory || r.memory.may_fit();
  if (!r.fits) return r;
  const std::vector<Network> networks = networks_of(p);
  std::vector<Report> each;
  for (const Network& network : networks) {
    each.push_back(simulate(network.prediction));
    if (each.back().staleness.all.max() > 0)
      throw InputError(
          fmt::format("--then needs workers that step together; under {} each goes on "
                      "by itself",
                      p.job.scheme->name));
  }
  add_networks(r, networks, each);
  Request base = p;
  base.devices = speedup_base(p, [&](int64_t devices) { return memory_on(p, devices); });
  add_speedup(r, base.devices, base.devices == p.devices ? r.rate.samples_per_second : throughput(base));
  return r;
}

}  // namespace

void check_precision(Precision precision, const Device& device, const std::string& profile) {
  if (precision != Precision::fp8 || device.peak_at(precision).flops_per_second > 0) return;
  const auto measured = MachineProfile::find(profile, precision);
  if (measured && measured->origin().format == precision) return;
  std::string valid;
  for (int i = 0; i < kPrecisions; ++i) {
    const auto q = static_cast<Precision>(i);
    if (device.peak_at(q).flops_per_second > 0) valid += (valid.empty() ? "" : ", ") + std::string(name(q));
  }
  throw InputError(fmt::format("{} has no {} arithmetic; it has {}", device.name, name(precision), valid));
}

BoundProgram make_plan(const Request& prediction) {
  check_arguments(prediction);
  return Simulation(prediction).bound(make_cluster(*prediction.system, prediction.devices), 1).plan;
}

double throughput(const Request& p) {
  if (!p.then.empty()) {
    double seconds = 0;  // per sample
    for (const Network& network : networks_of(p)) seconds += network.passes / throughput(network.prediction);
    return 1 / seconds;
  }
  check_arguments(p);
  const Simulation simulation(p);
  std::vector<std::string> notes;
  return simulation.run(p.devices, fit_anchor(p, simulation, notes).scale, true).rate;
}

Undisturbed undisturbed(const Request& p) {
  check_arguments(p);
  const Simulated run = Simulation(p).undisturbed(p.devices, false);
  const Trace& t = run.trace;
  Time all = t.busy[static_cast<int>(Lane::compute)];
  for (const Time& wait : t.exposed) all += wait;
  const double launch = all.ps > 0 ? t.exposed_to(Wait::launch).seconds() / all.seconds() : 0;
  return {run.rate, launch, is_static(*run.program)};
}

double quiet_throughput(const Request& p) {
  check_arguments(p);
  const bool varies = p.disturbance || p.pauses.every > 0 || p.stragglers.share > 0 || !p.then.empty() ||
                      !p.beside.empty() || p.anchor;
  const Simulation simulation(p);
  const auto program = simulation.program(make_cluster(*p.system, p.devices));
  if (varies || !(is_static(*program) || in_lock_step(*program))) return throughput(p);
  return simulation.undisturbed(p.devices, true).rate;
}

double anchored_scale(const Request& p) {
  std::vector<std::string> notes;
  return fit_anchor(p, Simulation(p), notes).scale;
}

Report simulate_rate(const Request& p) {
  TANDEM_CHECK(p.then.empty());
  check_arguments(p);
  Report r = asked(p);
  const auto [run, scale] = add_run(r, p, Simulation(p));
  r.setup.samples_per_iteration = std::llround(samples_of_all(*run.program));
  return r;
}

Report simulate_fit(const Request& p) {
  if (!p.then.empty()) return simulate_in_turn(p);
  check_arguments(p);
  const Simulation simulation(p);
  Report r = asked(p);
  Memories memories(p, simulation);
  add_fit_and_run(r, p, simulation, memories);
  return r;
}

Report simulate(const Request& p) {
  if (!p.then.empty()) return simulate_in_turn(p);
  check_arguments(p);
  const Simulation simulation(p);
  Report r = asked(p);
  Memories memories(p, simulation);
  const std::optional<ScaledRun> fitting = add_fit_and_run(r, p, simulation, memories);
  if (!fitting) return r;
  const auto& [run, scale] = *fitting;
  const int64_t base = speedup_base(p, [&](int64_t devices) {
    const Cluster fewer = grown_cluster(*p.system, devices);
    return largest(memories.of(fewer, simulation.program(fewer)));
  });
  const bool same = p.devices == base && p.beside.empty();
  add_speedup(r, base, same ? run.rate : simulation.run(base, scale).rate);
  if (!p.beside.empty()) r.rate.side_by_side = simulation.side_by_side(p.devices, scale, run.rate);
  return r;
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "sim/anchor.h"
#include "sim/capacity.h"
#include "sim/cost/machine.h"
#include "sim/evaluate.h"
#include "sim/gather.h"
#include "sim/intervals.h"
#include "sim/link_uses.h"
#include "sim/memory.h"
#include "sim/placement.h"
#include "sim/simulation.h"

namespace tandem::sim {

namespace {

constexpr int64_t kMostBeside = 512;  // devices of a job whose instances have transfers of their own

struct Run {
  Bound bound;                             ///< its plan is that of all jobs
  std::shared_ptr<const Program> program;  ///< of the job that is measured
  Trace trace;
  std::vector<double> lengths;  ///< seconds of the steady iterations
  double rate = 0;              ///< samples/s of all devices
};

/// Of all workers in one step of the optimiser.
double samples(const Program& program) {
  return static_cast<double>(samples_per_step(program) * program.roles[0].mesh.size());
}

/// Steps after which the workers do the same again, when ops that do not run in every iteration have had
/// their turn. What runs more rarely than once in a thousand steps is not waited for: it costs next to
/// nothing.
int64_t period(const Program& program) {
  int64_t iterations = program.micro_batches;
  for (const Op& op : program.roles[0].ops) iterations = std::lcm(iterations, int64_t{op.every});
  const int64_t steps = iterations / program.micro_batches;
  return steps > 1000 ? 1 : steps;
}

struct AnchorFit {
  double scale = 1;  ///< of compute costs
  bool met = false;  ///< false without an anchor, too
};

class Simulation {
 public:
  explicit Simulation(const Prediction& p)
      : p_(p), work_(make_workload(*p.graph, p.batch, p.precision, *p.optimizer, p.input, p.recompute)) {}

  const Workload& work() const { return work_; }

  /// The job by itself, or with those beside it.
  Run run(int64_t devices, double scale, bool beside = false) const {
    Run out;
    out.bound = bound(make_cluster(*p_.system, devices), scale);
    out.program = out.bound.plan.program;
    EvaluateOptions options;
    options.iterations = iterations(*out.program);
    if (beside && !p_.beside.empty()) out.bound.plan = joined(out.bound.plan, devices, scale);
    options.kept_iterations = 2;
    out.trace = evaluate(out.bound.plan, options);
    steady(out);
    return out;
  }

  Program compile(const Cluster& cluster) const { return compile(cluster, work_); }
  Program compile(const Cluster& cluster, const Workload& work) const {
    return p_.scheme->scheme->compile(work, cluster, p_.scheme->options);
  }

  Bound bound(const Cluster& cluster, double scale) const {
    BindInput in;
    in.cluster = cluster;
    in.program = std::make_shared<const Program>(compile(cluster));
    in.system = p_.system;
    in.precision = p_.precision;
    in.graph = p_.graph;
    in.optimizer = p_.optimizer;
    in.overheads = p_.scheme->overheads;
    in.recipe = with_updates_of(p_.scheme->recipe, *p_.optimizer);
    in.profile = p_.profile;
    in.compute_scale = scale;
    in.speeds = p_.speeds;
    if (gathers(in.overheads) && cluster.devices > 1) in.program = gathered(in);
    Bound b = bind(in);
    b.plan.seed = p_.seed;
    b.plan.disturbance.iteration_sigma = p_.system->host().jitter;
    if (b.measured) b.plan.disturbance = *b.measured;
    if (p_.disturbance) b.plan.disturbance = *p_.disturbance;
    slow_down(b.plan, in.cluster);
    return b;
  }

  /// The plan of the job together with those beside it, which compute at the same scale.
  Plan joined(const Plan& own, int64_t devices, double scale) const {
    std::vector<Plan> others;
    Cluster last = make_cluster(*p_.system, devices);
    for (const JobBeside& job : p_.beside) {
      if (std::max(job.devices, devices) > kMostBeside)
        throw InputError(fmt::format("jobs side by side are simulated with up to {} devices each, not {}",
                                     kMostBeside, std::max(job.devices, devices)));
      Prediction other = p_;
      other.graph = job.graph;
      other.scheme = job.scheme;
      other.batch = job.batch;
      last = make_cluster_behind(*p_.system, last, job.devices);
      others.push_back(Simulation(other).bound(last, scale).plan);
    }
    return side_by_side(own, others);
  }

  /// Devices that a fault of the system left less of their speed.
  void slow_down(Plan& plan, const Cluster& cluster) const {
    if (p_.system->faults().empty()) return;
    for (int64_t i = 0; i < cluster.devices; ++i) {
      const double speed = p_.system->speed(used_accelerator(*p_.system, cluster, i));
      if (speed < 1) plan.disturbance.slow.emplace_back(static_cast<uint32_t>(i), 1 / speed);
    }
  }

  /// The factor on compute costs with which `anchor.devices` devices reach the anchor's rate.
  AnchorFit meet(const Anchor& anchor, std::vector<std::string>& notes) const {
    double scale = 1;
    for (int round = 0; round < 8; ++round) {
      const Run r = run(anchor.devices, scale);
      const double want = samples(*r.program) / anchor.rate;
      const double got = samples(*r.program) / r.rate;
      if (std::abs(got / want - 1) < 1e-4) return {scale, true};
      const Time working = r.trace.busy[static_cast<int>(Lane::compute)] + r.trace.exposed_to(Wait::launch);
      const double compute =
          working.seconds() / static_cast<double>(r.trace.iteration_end.size()) * r.program->micro_batches;
      // Newton on "all but worker 0's compute and its issuing stays": exact when nothing else is exposed.
      const double next = scale * (compute + want - got) / compute;
      scale = std::clamp(next, scale * 0.2, scale * 5);
    }
    const double reached = run(anchor.devices, scale).rate;
    const bool met = std::abs(reached / anchor.rate - 1) <= 0.01;
    if (!met) {
      notes.push_back(
          fmt::format("the anchor of {:.6g} samples/s on {} device{} cannot be met: the prediction there "
                      "stays at {:.6g} (bound by something other than compute)",
                      anchor.rate, anchor.devices, anchor.devices == 1 ? "" : "s", reached));
    }
    return {scale, met};
  }

 private:
  /// The program with buckets that follow from when gradients are ready.
  std::shared_ptr<const Program> gathered(BindInput in) const {
    Workload work = work_;
    work.buckets = {1};
    in.first_only = true;
    in.program = std::make_shared<const Program>(compile(in.cluster, work));
    work.buckets = gather(bind(in).plan, in.overheads, p_.scheme->options.bytes("bucket"));
    return std::make_shared<const Program>(compile(in.cluster, work));
  }

  /// Of the program: whole steps, and as far as it is free to choose whole periods.
  int32_t iterations(const Program& program) const {
    const int64_t all = checked_mul(steps(program), program.micro_batches, "the iterations to simulate");
    if (all > INT32_MAX) throw InputError(fmt::format("{} iterations are too many to simulate", all));
    return static_cast<int32_t>(all);
  }

  int64_t steps(const Program& program) const {
    if (p_.iterations > 0) return p_.iterations;
    const int64_t workers = program.roles[0].mesh.size();
    if (is_static(program)) {
      // Micro-batches of one step already are alike: the first period fills the pipeline, the second counts.
      const int64_t whole = period(program),
                    enough = (24 + program.micro_batches - 1) / program.micro_batches;
      return std::max<int64_t>(2, (enough + whole - 1) / whole) * whole;
    }
    // The more workers wait for each other, the less their steps differ in length.
    if (in_lock_step(program)) return std::clamp<int64_t>(3072 / workers, 8, 24);
    // Arrival-order schemes: enough updates for a staleness distribution, at least 60 rounds.
    return std::clamp<int64_t>(4000 / workers, 60, 1000);
  }

  void steady(Run& r) const {
    const Program& program = *r.program;
    const auto& end = r.trace.iteration_end;
    const auto each = static_cast<std::size_t>(program.micro_batches),
               whole = static_cast<std::size_t>(period(program)), steps = end.size() / each;
    std::size_t warm = std::min(steps - 1, std::max<std::size_t>(2, steps / 6));
    const std::size_t periods = (warm + whole - 1) / whole * whole;
    if (periods < steps) warm = periods;
    for (std::size_t i = warm; i < steps; ++i) {
      const Time before = i == 0 ? Time{} : end[i * each - 1];
      r.lengths.push_back((end[(i + 1) * each - 1] - before).seconds());
    }
    double total = 0;
    for (const double s : r.lengths) total += s;
    if (!(total > 0)) throw InputError("the simulated iteration takes no time: the model has no work in it");
    r.rate = samples(program) * static_cast<double>(r.lengths.size()) / total * r.trace.kept_share();
    std::sort(r.lengths.begin(), r.lengths.end());
  }

  const Prediction& p_;
  Workload work_;
};

/// Groups above this size are priced by a few of their members, which a fault would make unlike the rest.
constexpr int64_t kMostUnlike = 256;

void check_arguments(const Prediction& p) {
  if (p.job.batch < 1)
    throw InputError(fmt::format("batch {} is not a positive number of samples", p.job.batch));
  if (p.devices < 1) throw InputError(fmt::format("{} devices: at least one is needed", p.devices));
  if (!p.system->alike() && p.devices > kMostUnlike)
    throw InputError(
        fmt::format("faults of single nodes and links are simulated with up to {} devices, not {}; "
                    "without node2/ a fault strikes every node alike",
                    kMostUnlike, p.devices));
  const Device& device = p.system->device(p.system->accelerator(0));
  if (p.job.precision != Precision::fp32 && device.peak_at(p.job.precision).flops_per_second == 0 &&
      p.job.precision == Precision::fp8 && MachineProfile::find(p.profile, p.job.precision) == nullptr) {
    std::string valid;
    for (int i = 0; i < kPrecisions; ++i) {
      const auto q = static_cast<Precision>(i);
      if (device.peak_at(q).flops_per_second > 0) valid += (valid.empty() ? "" : ", ") + std::string(name(q));
    }
    throw InputError(
        fmt::format("{} has no {} arithmetic; it has {}", device.name, name(p.job.precision), valid));
  }
}

/// The busiest link that the measured job itself uses: beside others it may not be the busiest of all.
LinkUse own_busiest(const Report& r, const Run& run) {
  const Plan& plan = run.bound.plan;
  if (r.links.empty() || plan.measured_roles == 0 || !is_static(*run.program))
    return r.links.empty() ? LinkUse{} : r.links.front();
  std::set<std::string> own;
  for (uint32_t role = 0; role < plan.measured_roles; ++role) {
    for (const auto& of_class : plan.roles[role].transfer) {
      for (const int32_t t : of_class) {
        if (t < 0) continue;
        for (const Use& u : plan.transfers[static_cast<std::size_t>(t)].uses)
          own.insert(plan.link_name(u.link));
      }
    }
  }
  const auto at = std::find_if(r.links.begin(), r.links.end(),
                               [&](const LinkUse& use) { return own.contains(use.name); });
  return at == r.links.end() ? LinkUse{} : *at;
}

void add_rates(Report& r, const Prediction& p, const Simulated& run) {
  r.evaluator = run.trace.evaluator;
  r.evaluator_reason = run.trace.reason;
  r.simulated_events = run.trace.events;
  r.samples_per_second = run.rate;
  r.tokens_per_second = run.rate * static_cast<double>(p.job.graph->tokens_per_sample());
  r.iteration_median = quantile(run.lengths, 0.5);
  r.iteration_p05 = quantile(run.lengths, 0.05);
  r.iteration_p95 = quantile(run.lengths, 0.95);
  r.staleness = run.trace.staleness;
  r.staleness_by_worker = run.trace.staleness_by_worker;
}

void add_speedup(Report& r, const Prediction& p, const Simulation& simulation, const Simulated& run,
                 double scale) {
  const int64_t base = p.check_memory ? std::min(fewest_devices(p), p.devices) : 1;
  r.speedup = run.rate / (p.devices == base && p.beside.empty() ? run : simulation.run(base, scale)).rate;
  r.speedup_base_devices = base;
  r.scaling_efficiency = r.speedup * static_cast<double>(base) / static_cast<double>(p.devices);
}

}  // namespace

Plan make_plan(const Prediction& prediction) {
  check_arguments(prediction);
  return Simulation(prediction).bound(make_cluster(*prediction.system, prediction.devices), 1).plan;
}

double throughput(const Prediction& p) {
  check_arguments(p);
  const Simulation simulation(p);
  std::vector<std::string> notes;
  return simulation.run(p.devices, fit_anchor(p, simulation, notes).scale, true).rate;
}

double anchored_scale(const Prediction& p) {
  std::vector<std::string> notes;
  return fit_anchor(p, Simulation(p), notes).scale;
}

Report simulate(const Prediction& p) {
  check_arguments(p);
  const Simulation simulation(p);
  Report r = asked(p);
  const Program program = compile(p.job, simulation.work(), make_cluster(*p.system, p.devices));
  add_memory(r, p, simulation, program);
  r.samples_per_iteration = std::llround(samples_of_all(program));
  r.fits = !p.check_memory || r.memory.fits();
  if (!r.fits) return r;

  const auto [scale, met] = anchor_scale(p, simulation, r.notes);
  const Run run = simulation.run(p.devices, scale, true);
  r.evaluator = run.trace.evaluator;
  r.evaluator_reason = run.trace.reason;
  r.samples_per_second = run.rate;
  r.iteration_median = quantile(run.lengths, 0.5);
  r.iteration_p05 = quantile(run.lengths, 0.05);
  r.iteration_p95 = quantile(run.lengths, 0.95);
  r.tokens_per_second = run.rate * static_cast<double>(p.graph->tokens_per_sample());
  const int64_t base = p.check_memory ? std::min(fewest_devices(p), p.devices) : 1;
  r.speedup = run.rate / (p.devices == base && p.beside.empty() ? run : simulation.run(base, scale)).rate;
  r.speedup_base_devices = base;
  r.scaling_efficiency = r.speedup * static_cast<double>(base) / static_cast<double>(p.devices);
  r.staleness = run.trace.staleness;
  r.staleness_by_worker = run.trace.staleness_by_worker;
  add_time_shares(r, run.trace, run.bound, [&](uint32_t worker) { return worker_name(p, cluster, worker); });
  r.memory_by_role = memory_by_role(simulation.work(), device, *run.program, habits_of(p));
  r.memory = largest(r.memory_by_role);
  add_links(r, run.bound.plan, run.trace, p.system->nodes());
  r.busiest_link = own_busiest(r, run);
  r.largest_share_is_bottleneck();
  r.calibrated = p.anchor ? met : run.bound.measured.has_value();  // by a profile of this machine
  r.errors = error_sources(r, p, run.bound.compute_error, run.bound.several_error);
  r.interval = interval(r.samples_per_second, r.errors);
  if (says_nothing(r.interval.low, r.interval.high)) r.notes.push_back(too_wide(r, p));
  r.extrapolates = run.bound.extrapolates;
  if (device.peak_at(p.precision).flops_per_second == 0 && !run.bound.measured) {
    r.extrapolates.push_back(fmt::format("{} has no {} arithmetic: computed at its {} rate", device.name,
                                         name(p.precision), name(device.fp32_products)));
  }
  if (const std::string note = meaning_here(p, device); !note.empty()) r.notes.push_back(note);
  r.simulated_events = run.trace.events;
  add_timeline(r, run);
  return r;
}

}  // namespace tandem::sim

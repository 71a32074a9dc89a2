// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/until.h"
#include "schemes/setup/uneven_batches.h"
#include "sim/batch_split.h"
#include "sim/bind/gather.h"
#include "sim/bind/side_by_side.h"
#include "sim/bound/placement.h"
#include "sim/evaluate/contention.h"
#include "sim/evaluate/evaluate.h"
#include "sim/habits.h"

namespace tandem::sim {

namespace {

constexpr int64_t kMostBeside = 512;  // devices of a concurrent job whose instances have separate transfers

/// Steps after which the workers repeat themselves, including ops that do not run in every iteration. Ops
/// that run less than once in a thousand steps are not waited for: they cost next to nothing.
int64_t period(const Program& program) {
  int64_t iterations = program.micro_batches;
  program.roles[0].ops.each_distinct(
      [&](const Op& op, int64_t) { iterations = std::lcm(iterations, int64_t{op.every}); });
  const int64_t steps = iterations / program.micro_batches;
  return steps > 1000 ? 1 : steps;
}

/// Step from which on every op either always runs or never again.
int64_t transient(const Program& program) {
  uint32_t iterations = 0;
  program.roles[0].ops.each_distinct([&](const Op& op, int64_t) {
    iterations = std::max({iterations, op.from, op.until == Op::kEver ? 0 : op.until});
  });
  return (iterations + program.micro_batches - 1) / program.micro_batches;
}

/// How many steps to simulate until the last one is like all that follow, apart from noise.
int64_t repeating(const Program& program) {
  const int64_t whole = period(program), before = transient(program);
  return whole == 1 ? 3 + before : (2 + (before + whole - 1) / whole) * whole;
}

/// Rounds after which asynchronous workers are out of step.
constexpr int64_t kParting = 8;

/// Warm-up steps among that many: pipelines fill, and asynchronous workers, which all start at once and so
/// see links and versions as never again, get out of step.
int64_t run_in(const Program& program, int64_t steps) {
  const int64_t parting = is_static(program) || in_lock_step(program) ? 0 : std::min(kParting, steps * 2 / 5);
  int64_t out = std::min(steps - 1, std::max({int64_t{2}, parting, steps / 6}));
  if (const int64_t before = transient(program); before < steps) out = std::max(out, before);
  const int64_t whole = period(program), periods = (out + whole - 1) / whole * whole;
  return periods < steps ? periods : out;
}

/// With many workers that do not wait for the network a few rounds give the rate within 1 %. More workers
/// make more gradients per round; with 4096 staleness is known as well.
int32_t first_rounds(const Program& program) {
  return static_cast<int32_t>(std::clamp<int64_t>(4096 / program.roles[0].mesh.size(), 8, 16));
}
bool may_be_steady(const Program& program) {
  return free_running(program) && program.roles[0].mesh.size() >= kManyWorkers && period(program) == 1 &&
         transient(program) == 0;
}

/// Lengths of the steps after the warm-up, and their rate.
void steady(Simulated& r) {
  const Program& program = *r.program;
  const auto& end = r.trace.iteration_end;
  const auto each = static_cast<std::size_t>(program.micro_batches), steps = end.size() / each;
  const int64_t least =
      std::min<int64_t>(r.trace.run_in / program.micro_batches, static_cast<int64_t>(steps) - 1);
  const int64_t warm = std::max(run_in(program, static_cast<int64_t>(steps)), least);
  for (auto i = static_cast<std::size_t>(warm); i < steps; ++i) {
    const Time begin = i == 0 ? Time{} : end[i * each - 1];
    r.lengths.push_back((end[(i + 1) * each - 1] - begin).seconds());
  }
  double total = 0;
  for (const double s : r.lengths) total += s;
  if (!(total > 0)) throw InputError("the simulated iteration takes no time: the model has no work in it");
  const double steps_each =
      r.trace.timed.worker_rate / static_cast<double>(program.roles[0].mesh.size() * program.micro_batches);
  const double step_rate = steps_each > 0 ? steps_each : static_cast<double>(r.lengths.size()) / total;
  r.rate = samples_of_all(program) * step_rate * r.trace.kept_share();
  std::sort(r.lengths.begin(), r.lengths.end());
}

/// Samples/s of the cluster's device `i` alone, with data at hand and without noise.
double rate_alone(const Request& p, const Cluster& cluster, int64_t i) {
  const auto all = static_cast<int64_t>(p.system->accelerators().size());
  const int64_t number = cluster.per_node == 0
                             ? cluster.first + i
                             : cluster.first + i / cluster.per_node * all + i % cluster.per_node;
  Request alone = p;
  alone.split = BatchSplit::even;
  alone.job.batches.clear();
  alone.job.input = false;
  alone.speeds = {};
  alone.disturbance = Disturbance{};
  alone.stragglers = {};
  alone.pauses = {};
  alone.beside.clear();
  return Simulation(alone).run({1, 1, 1, number}, 1).rate;
}

/// Not evaluated yet.
Simulated whole_steps(Bound bound) {
  Simulated out;
  out.program = bound.plan.program;
  out.bound = std::move(bound);
  return out;
}

void evaluate_steady(Simulated& out, EvaluateOptions options, bool timeline) {
  options.kept_iterations = 2;
  options.fingerprint = false;
  if (!out.program->grid.axes.empty()) options.kept_iterations = options.kept_instances = 1;  // long steps
  if (!timeline) {
    options.kept_iterations = 0;
    options.kept_instances = 1;  // whose time is accounted for
  }
  const int32_t each = out.program->micro_batches;
  options.run_in = static_cast<int32_t>(run_in(*out.program, options.iterations / each)) * each;
  options.period = static_cast<int32_t>(period(*out.program)) * each;
  out.trace = evaluate(out.bound.plan, options);
  if (out.shorter) out.trace = extended(evaluate(out.few, options), out.trace, *out.shorter);
  if (options.most_iterations > options.iterations && out.trace.run_in == 0)
    out.trace.run_in = options.run_in;
  steady(out);
}

}  // namespace

double pauses_per_iteration(const BoundProgram& plan) {
  double seconds = 0;  // of work
  for (uint32_t r = 0; r < plan.program->roles.size(); ++r) {
    const Role& role = plan.program->roles[r];
    if (!role.works() || !plan.measured(r)) continue;
    double each = 0;
    uint32_t o = 0;
    for (const Op& op : role.ops) {
      each += op.kind == OpKind::compute ? plan.roles[r].duration[0][o].seconds() / op.every : 0;
      ++o;
    }
    seconds += each * static_cast<double>(role.mesh.size());
  }
  return seconds / plan.disturbance.pauses.every;
}

double samples_of_all(const Program& program) {
  return static_cast<double>(
      checked_mul(samples_per_step(program), replicas(program), "the samples of a step"));
}

Simulation::Simulation(const Request& prediction)
    : p_(prediction),
      programs_(prediction.programs ? prediction.programs : std::make_shared<Programs>()),
      work_(programs_->work(prediction.job)) {}

BoundProgram Simulation::plan_of(int64_t micro_batches, const Cluster& cluster, double scale) const {
  const ResolvedScheme scheme = with_micro_batches(*p_.job.scheme, micro_batches);
  Request fewer = p_;
  fewer.job.scheme = &scheme;
  fewer.own_executions = INT64_MAX;
  return Simulation(fewer).bound(cluster, scale).plan;
}

/// If a step is too long to simulate transfers of every instance, and these can slow each other, takes
/// shorter steps that are not.
Simulated Simulation::prepared(const Cluster& cluster, double scale) const {
  Simulated out = whole_steps(bound(cluster, scale));
  out.scale = scale;
  const auto steps =
      shorter_steps(*out.program, out.program->samples_per_iteration / p_.job.batch, p_.own_executions);
  if (!steps || !is_static(*out.program)) return out;
  BoundProgram more = plan_of(steps->more, cluster, scale);
  if (find_contention(more).who.empty()) return out;  // then dividing links in advance is exact
  out.bound.plan = std::move(more);
  out.few = plan_of(steps->few, cluster, scale);
  out.shorter = steps;
  return out;
}

Simulated Simulation::evaluated(Simulated out, const std::vector<BoundProgram>& others, bool timeline) const {
  EvaluateOptions& options = out.options;
  options.most_iterations = options.iterations = iterations(out);
  if (p_.iterations == 0 && others.empty() && !(p_.pauses.every > 0) && may_be_steady(*out.program))
    options.iterations =
        std::min(options.iterations, first_rounds(*out.program) * out.program->micro_batches);
  if (!others.empty()) out.bound.plan = sim::side_by_side(out.bound.plan, others);
  evaluate_steady(out, options, timeline);
  return out;
}

Simulated Simulation::run(int64_t devices, double scale, bool beside, bool timeline) const {
  const Cluster cluster = make_cluster(*p_.system, devices);
  if (!beside || p_.beside.empty()) return evaluated(prepared(cluster, scale), {}, timeline);
  return evaluated(whole_steps(bound(cluster, scale)), plans_beside(devices, scale), timeline);
}

Simulated Simulation::run(const Cluster& cluster, double scale) const {
  return evaluated(prepared(cluster, scale), {}, false);
}

Simulated Simulation::undisturbed(int64_t devices, bool contention) const {
  const Cluster cluster = make_cluster(*p_.system, devices);
  Simulated out = contention ? prepared(cluster, 1) : whole_steps(bound(cluster, 1));
  for (BoundProgram* plan : {&out.bound.plan, &out.few}) {
    plan->disturbance = {};
    slow_down(*plan, cluster);
  }
  out.options.iterations = static_cast<int32_t>(repeating(*out.program)) * out.program->micro_batches;
  out.options.contention = contention;
  evaluate_steady(out, out.options, false);
  return out;
}

Simulated Simulation::brief(const Simulated& run) const {
  const Program& program = *run.program;
  Simulated out;
  out.program = run.program;
  out.options = run.options;
  // Then steps differ only by noise.
  const bool equal = (is_static(program) || in_lock_step(program)) && !(p_.pauses.every > 0);
  const int64_t stages = working_roles(program), all = program.samples_per_iteration / p_.job.batch;
  const bool shortens = equal && p_.beside.empty() && !program.grid.axes.empty() &&
                        program.micro_batches == 1 && all > 4 * stages;
  if (shortens) {
    const Cluster cluster = make_cluster(*p_.system, p_.devices);
    out.shorter = ShorterSteps{2 * stages, 3 * stages, all};
    out.bound.plan = plan_of(out.shorter->more, cluster, run.scale);
    out.few = plan_of(out.shorter->few, cluster, run.scale);
  } else {
    out.bound.plan = run.bound.plan;
    out.shorter = run.shorter;
    out.few = run.few;
  }
  if (equal) {
    out.options.iterations =
        std::min(out.options.iterations, static_cast<int32_t>(repeating(program)) * program.micro_batches);
    out.options.most_iterations = out.options.iterations;
  }
  if (!equal || (!shortens && out.options.iterations == run.options.iterations)) {
    out.rate = run.rate;  // it is the same simulation
    return out;
  }
  const auto few = static_cast<std::size_t>(out.options.iterations);
  if (!out.shorter && run.trace.evaluator == "sweep" && few <= run.trace.iteration_end.size()) {
    // In a sweep, iterations do not depend on later ones.
    out.trace.iteration_end.assign(run.trace.iteration_end.begin(),
                                   run.trace.iteration_end.begin() + out.options.iterations);
    steady(out);
  } else {
    evaluate_steady(out, out.options, false);
  }
  return out;
}

double Simulation::rate_if(const Simulated& run, double deviations) const {
  Simulated out;
  out.bound.plan = run.bound.plan.stretched(deviations);
  out.shorter = run.shorter;
  if (run.shorter) out.few = run.few.stretched(deviations);
  out.program = run.program;
  evaluate_steady(out, run.options, false);
  return out.rate;
}

std::vector<SharedRate> Simulation::side_by_side(int64_t devices, double scale, double shared) const {
  const Bound own = bound(make_cluster(*p_.system, devices), scale);
  std::vector<SharedRate> out = {
      {p_.job.graph->name(), devices, shared, evaluated(whole_steps(own), {}, false).rate}};
  const std::vector<BoundProgram> plans = plans_beside(devices, scale);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<BoundProgram> others = plans;
    others[i] = own.plan;  // in place of the one that is measured now
    Bound measured;
    measured.plan = plans[i];
    out.push_back({p_.beside[i].job.graph->name(), p_.beside[i].devices,
                   evaluated(whole_steps(measured), others, false).rate,
                   evaluated(whole_steps(measured), {}, false).rate});
  }
  return out;
}

std::shared_ptr<const Program> Simulation::program(const Cluster& cluster) const {
  return programs_->program(p_.job, cluster);
}

std::shared_ptr<const UnlikeBatches> Simulation::with_buckets(const UnlikeBatches& batches,
                                                              const Cluster& cluster,
                                                              const std::vector<int64_t>& buckets,
                                                              const std::vector<uint32_t>& order) const {
  auto out = std::make_shared<UnlikeBatches>();
  out->samples = batches.samples;
  for (const int64_t samples : batches.samples) {
    auto& program = out->programs[samples];
    if (program) continue;
    Job job = p_.job;
    job.batch = samples;
    job.batches.clear();
    Workload work = make_workload(job);
    work.buckets = buckets;
    work.order = order;
    program = std::make_shared<const Program>(compile(job, work, cluster));
  }
  return out;
}

std::shared_ptr<const UnlikeBatches> Simulation::batches(const Cluster& cluster) const {
  const bool given = !p_.job.batches.empty();
  if ((p_.split == BatchSplit::even && !given) || cluster.devices == 1) return nullptr;
  const std::lock_guard lock(split_lock_);
  for (const auto& [known, batches] : split_) {
    if (known == cluster) return batches;
  }
  const auto alone = [&](int64_t i) { return rate_alone(p_, cluster, i); };
  const auto compiled = program(cluster);
  const Program& program = *compiled;
  if (given) {
    check_batches(p_.job, cluster.devices);
    check_takes_uneven(program, p_.job.scheme->name);
  }
  const UnlikeBatches split{given ? p_.job.batches : split_by_speed(p_, cluster, program, alone), {}};
  split_.emplace_back(cluster, with_buckets(split, cluster, {}));
  return split_.back().second;
}

Bound Simulation::bound(const Cluster& cluster, double scale) const {
  Until::check();
  CostInput in;
  in.cluster = cluster;
  in.program = program(cluster);
  in.system = p_.system;
  in.job = p_.job;
  in.profile = p_.profile;
  in.autocast = weights_of(habits_of(p_), *in.program, p_.job.offload) == MemoryHabits::Weights::fp32;
  in.measured = p_.measured;
  in.compute_scale = scale;
  in.speeds = p_.speeds;
  in.priced = p_.priced;
  in.batches = batches(cluster);
  in.own_executions = p_.own_executions;
  if (gathers(p_.job.scheme->overheads) && cluster.devices > 1) gather_buckets(in);
  if (by_need(*p_.job.scheme) && cluster.devices > 1) order_buckets(in);
  Bound b = bind(in);
  b.plan.seed = p_.seed;
  b.plan.disturbance.iteration_sigma = p_.system->host().jitter;
  if (b.measured) b.plan.disturbance = *b.measured;
  if (p_.disturbance) b.plan.disturbance = *p_.disturbance;
  b.plan.disturbance.stragglers = p_.stragglers;
  b.plan.disturbance.pauses = p_.pauses;
  slow_down(b.plan, in.cluster);
  return b;
}

/// Of the concurrent jobs, which compute at the same scale.
std::vector<BoundProgram> Simulation::plans_beside(int64_t devices, double scale) const {
  std::vector<BoundProgram> others;
  Cluster last = make_cluster(*p_.system, devices);
  for (const JobBeside& job : p_.beside) {
    if (std::max(job.devices, devices) > kMostBeside)
      throw InputError(fmt::format("jobs side by side are simulated with up to {} devices each, not {}",
                                   kMostBeside, std::max(job.devices, devices)));
    Request other = p_;
    other.job = job.job;
    last = make_cluster_behind(*p_.system, last, job.devices);
    others.push_back(Simulation(other).bound(last, scale).plan);
  }
  return others;
}

/// Devices that a fault of the system has slowed.
void Simulation::slow_down(BoundProgram& plan, const Cluster& cluster) const {
  if (p_.system->faults().empty()) return;
  for (int64_t i = 0; i < cluster.devices; ++i) {
    const double speed = p_.system->speed(used_accelerator(*p_.system, cluster, i));
    if (speed < 1) plan.disturbance.slow.emplace_back(static_cast<uint32_t>(i), 1 / speed);
  }
}

namespace {

/// What says which sums are made when: where stages divide the model all of a step, else worker 0's ops.
struct TimedStep {
  BoundProgram plan;
  StepEnds ends;
};

TimedStep timed_step(const CostInput& in) {
  const bool split = !in.program->grid.axes.empty();
  TimedStep out{bind(in, split ? Priced::all : Priced::first).plan, {}};
  if (!split) return out;
  EvaluateOptions options;
  options.iterations = options.kept_iterations = options.kept_instances = 1;
  options.fingerprint = false;
  for (const Role& role : in.program->roles) out.ends.emplace_back(role.ops.size());
  for (const Span& s : evaluate(out.plan, options).spans) {
    if (s.instance == 0 && s.iteration == 0) out.ends[s.role][s.op] = s.end.seconds();
  }
  return out;
}

}  // namespace

/// Derives the buckets from when gradients are ready.
void Simulation::gather_buckets(CostInput& in) const {
  const auto with = [&](const std::vector<int64_t>& buckets) {
    Workload work = *work_;
    work.buckets = buckets;
    in.program = std::make_shared<const Program>(compile(p_.job, work, in.cluster));
    if (in.batches) in.batches = with_buckets(*in.batches, in.cluster, buckets);
  };
  with({1});
  const Overheads& overheads = p_.job.scheme->overheads;
  const TimedStep fine = timed_step(in);
  with(gather(fine.plan, overheads, p_.job.scheme->options.bytes("bucket"), fine.ends));
  if (overheads.cycle.ps > 0) in.last_look = last_look(fine.plan, overheads.cycle, fine.ends);
}

/// Derives the order of sums from when gradients are ready and needed.
void Simulation::order_buckets(CostInput& in) const {
  Workload work = *work_;
  for (const Bucket& b : in.program->buckets) work.buckets.push_back(b.elements);
  const TimedStep step = timed_step(in);
  work.order = order_by_need(step.plan, p_.job.scheme->options.bytes("credit"), step.ends);
  in.program = std::make_shared<const Program>(compile(p_.job, work, in.cluster));
  if (in.batches) in.batches = with_buckets(*in.batches, in.cluster, work.buckets, work.order);
}

/// Of the program: whole steps, and whole periods if it is free to choose.
int32_t Simulation::iterations(const Simulated& run) const {
  const BoundProgram& plan = run.bound.plan;
  const Program& program = *plan.program;
  const int64_t each = executions(program) + (run.shorter ? executions(*run.few.program) : 0);
  const int64_t all = checked_mul(steps_with_pauses(plan, steps(program, each)), program.micro_batches,
                                  "the iterations to simulate");
  if (all > INT32_MAX) throw InputError(fmt::format("{} iterations are too many to simulate", all));
  return static_cast<int32_t>(all);
}

/// Pauses are rare: as many steps as draw a hundred, if that is quick to simulate.
int64_t Simulation::steps_with_pauses(const BoundProgram& plan, int64_t least) const {
  constexpr double kWanted = 100, kMostExecutions = 2e6;
  if (p_.iterations > 0 || !(p_.pauses.every > 0)) return least;
  const double each = pauses_per_iteration(plan) * plan.program->micro_batches;
  if (!(each > 0)) return least;
  const double quick = kMostExecutions / static_cast<double>(executions(*plan.program)) /
                       static_cast<double>(plan.program->micro_batches);
  const auto whole = static_cast<double>(period(*plan.program));
  const double steps = std::ceil(std::min(kWanted / each, quick) / whole) * whole;
  return std::max(least, static_cast<int64_t>(steps));
}

int64_t Simulation::steps(const Program& program, int64_t in_iteration) const {
  if (p_.iterations > 0) return p_.iterations;
  const int64_t workers = program.roles[0].mesh.size();
  if (!program.grid.axes.empty()) {
    // Steps differ only by noise once the first has filled the pipeline.
    constexpr int64_t kMostExecutions = 1'000'000;
    const int64_t
        few = std::clamp<int64_t>(kMostExecutions / std::max<int64_t>(1, in_iteration), 3, 24),
        whole =
            period(program);  // workers that average now and then: one period to begin with, one that counts
    return whole == 1 ? few : std::max<int64_t>(2, (few + whole - 1) / whole) * whole;
  }
  // The more workers wait for each other, the less their steps differ in length.
  const int64_t few = std::clamp<int64_t>(3072 / workers, 8, 24);
  if (is_static(program)) {
    // Micro-batches of one step are equal: the first period fills the pipeline, the second counts.
    const int64_t whole = period(program), enough = (few + program.micro_batches - 1) / program.micro_batches;
    TANDEM_CHECK(whole > 0);
    return (std::max<int64_t>(2, (enough + whole - 1) / whole) + (transient(program) + whole - 1) / whole) *
           whole;
  }
  if (in_lock_step(program)) return few;
  // Arrival-order schemes: enough updates for a staleness distribution, at least 60 rounds, and enough
  // exchanges where these are rare: one period to part, and some that count.
  constexpr int64_t kPeriods = 6, kFewestPeriods = 3, kQuick = 4'000'000;
  const int64_t least = std::clamp<int64_t>(4000 / workers, 60, 1000), whole = period(program);
  if (whole == 1) return least;
  const int64_t quick = kQuick / std::max<int64_t>(1, in_iteration * whole);
  return std::max((least + whole - 1) / whole, std::clamp(quick, kFewestPeriods, kPeriods)) * whole;
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#include "app/measure/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/statistics.h"
#include "sim/plan/placement.h"
#include "sim/simulate.h"
#include "sim/simulation.h"
#include "topologies/system.h"

namespace tandem::app {

namespace {

constexpr int64_t kResamples = 1000;
constexpr int64_t kSweepSeeds = 3, kReferenceSeeds = 9;

struct Ran {
  double samples = 0, rate = 0;
  bool there = false;
};

/// To the target on one node; with a `period` instead RaceTask::rate_iterations times that with the task's
/// links.
Ran run_once(const RaceTask& task, const std::string& scheme_text, int64_t workers, int64_t batch,
             double rate, uint64_t seed, int32_t period, const std::atomic<bool>* stop) {
  const Graph graph = Graph::load(task.model);
  const ResolvedScheme scheme = resolve_scheme(scheme_text, {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.job.batch = batch;
  e.job.optimizer = &optimizer("sgd");
  e.backend = &backends_registry().at("cpu");
  e.cluster = {workers, 1, workers};
  e.data = &task.samples;
  e.seed = seed;
  e.rate.base = rate;
  e.stop = stop;
  const int64_t step = batch * workers * make_program(e).micro_batches;
  if (period > 0) {
    // What a link carries before its limit holds is over after a quarter.
    e.iterations = task.rate_iterations * period;
    e.warmup = e.iterations / 4;
    if (!task.rate_limit.empty()) {
      e.cluster = {workers, workers, 1};
      e.rate_limit = RateLimit{parse_bandwidth(task.rate_limit), {}};
    }
  } else {
    e.target = LossTarget{task.loss, task.window};
    e.iterations = static_cast<int32_t>(std::max<int64_t>(8, task.most_samples / step));
    e.warmup = 3;
  }
  if (workers > 1 && task.throttle != 1) e.throttle = {{static_cast<uint32_t>(workers - 1), task.throttle}};
  const ExecutionResult r = execute(e);
  const bool there = r.samples_to_target.has_value();
  return {static_cast<double>(there ? *r.samples_to_target : task.most_samples), r.report.samples_per_second,
          there};
}

double median_samples(const RaceTask& task, int64_t batch, double rate, int64_t seeds,
                      const std::atomic<bool>* stop) {
  std::vector<double> all;
  for (int64_t seed = 1; seed <= seeds; ++seed)
    all.push_back(run_once(task, "allreduce", 1, batch, rate, static_cast<uint64_t>(seed), 0, stop).samples);
  return median(all);
}

/// Learning rates `factor` apart from the best one on, while they are better. Runs that take half as long
/// again as the best are given up.
void improve(const RaceTask& task, double factor, const std::atomic<bool>* stop, RaceReference& best) {
  RaceTask within = task;
  for (double rate = best.learning_rate * factor; rate > 1e-4 && rate < 1e3; rate *= factor) {
    within.most_samples = std::min(task.most_samples, static_cast<int64_t>(1.5 * best.samples));
    const double samples = median_samples(within, best.batch, rate, kSweepSeeds, stop);
    if (!(samples < best.samples)) break;
    best.learning_rate = rate;
    best.samples = samples;
  }
}

/// Of `seeds` values as many, drawn with replacement.
std::vector<double> drawn(const std::vector<double>& from, int64_t resample, uint64_t entry) {
  std::vector<double> out;
  for (std::size_t i = 0; i < from.size(); ++i)
    out.push_back(from[draw_bits(0x72616365, static_cast<uint64_t>(resample), entry, i) % from.size()]);
  return out;
}

}  // namespace

double RaceEntry::executed_samples() const { return median(samples); }
double RaceEntry::executed_seconds() const { return executed_samples() / executed_rate; }

RaceModel race_model(const RaceReference& small, const RaceReference& large) {
  const auto b = static_cast<double>(small.batch), big = static_cast<double>(large.batch);
  RaceModel out;
  out.fewest_steps = (large.samples - small.samples) / (big - b);
  out.noise = out.fewest_steps > 0 ? small.samples / out.fewest_steps - b : -1;
  if (!(out.noise > 0))
    throw InputError(
        fmt::format("steps of {} samples need {:.0f} samples to the target and steps of {} need {:.0f}: the "
                    "task does not "
                    "tell batch sizes apart",
                    small.batch, small.samples, large.batch, large.samples));
  // Each best rate gives the largest one; their geometric mean.
  out.learning_rate =
      std::sqrt(small.learning_rate * (1 + out.noise / b) * large.learning_rate * (1 + out.noise / big));
  return out;
}

RaceReference race_reference(const RaceTask& task, int64_t batch, const std::atomic<bool>* stop) {
  constexpr double kFirst = 0.2, kFine = 1.4142135623730951;
  RaceReference best{batch, kFirst, median_samples(task, batch, kFirst, kSweepSeeds, stop)};
  for (const double factor : {2.0, 0.5, kFine, 1 / kFine}) improve(task, factor, stop, best);
  best.samples = median_samples(task, batch, best.learning_rate, kReferenceSeeds, stop);
  return best;
}

RaceEntry race_entry(const RaceTask& task, const RaceModel& model, const std::string& scheme_text,
                     int64_t workers, const std::string& profile) {
  const Graph graph = Graph::load(task.model);
  const ResolvedScheme scheme = resolve_scheme(scheme_text, {});
  System::Sets slow;
  if (task.throttle != 1)
    slow = {{fmt::format("faults.cpu{}", workers - 1), fmt::format("{:.17g}", 1 / task.throttle)}};
  if (!task.rate_limit.empty()) slow.emplace_back("network.bandwidth", task.rate_limit);
  const System system = System::load(task.rate_limit.empty() ? "local" : "local-nodes", slow);
  Prediction p;
  p.job.graph = &graph;
  p.job.scheme = &scheme;
  p.job.batch = task.batch;
  p.job.optimizer = &optimizer("sgd");
  p.job.input = false;
  p.system = &system;
  p.devices = workers;
  p.profile = profile;
  p.check_memory = false;
  const Report report = simulate(p);
  const auto program = Simulation(p).program(make_cluster(system, workers));
  const SyncShape shape = sync_shape(*program);
  RaceEntry out;
  out.scheme = scheme_text;
  out.workers = workers;
  const double delay = program->delay > 0 ? program->delay : shape.counts_delay ? report.staleness.mean() : 0;
  out.learning_rate = model.learning_rate * learning_rate_share(shape, delay, model.noise);
  out.predicted_rate = report.samples_per_second;
  out.predicted.value = task.loss;
  out.predicted.step_samples = shape.step_samples;
  out.predicted.delay = delay;
  out.predicted.models = shape.models;
  out.predicted.period = shape.period;
  out.predicted.mixing = shape.mixing;
  out.predicted.steps = steps_to_target(shape, delay, model.noise, model.fewest_steps);
  out.predicted.samples = *out.predicted.steps * shape.step_samples;
  return out;
}

void race_run(const RaceTask& task, uint64_t seed, const std::atomic<bool>* stop, RaceEntry& entry) {
  const Ran r = run_once(task, entry.scheme, entry.workers, task.batch, entry.learning_rate, seed, 0, stop);
  if (stop != nullptr && stop->load()) return;
  entry.samples.push_back(r.samples);
  entry.missed += r.there ? 0 : 1;
}

void race_rate(const RaceTask& task, const std::atomic<bool>* stop, RaceEntry& entry) {
  const Ran r = run_once(task, entry.scheme, entry.workers, task.batch, entry.learning_rate, 1,
                         static_cast<int32_t>(entry.predicted.period), stop);
  entry.executed_rate = std::max(entry.executed_rate, r.rate);
}

RaceOrder race_order(const std::vector<RaceEntry>& entries, int64_t workers) {
  std::vector<double> predicted, executed;
  std::vector<const RaceEntry*> of;
  for (const RaceEntry& e : entries) {
    if (e.workers != workers || e.samples.empty()) continue;
    of.push_back(&e);
    predicted.push_back(e.predicted_seconds());
    executed.push_back(e.executed_seconds());
  }
  RaceOrder out{kendall_tau(predicted, executed)};
  std::vector<double> taus;
  for (int64_t k = 0; k < kResamples; ++k) {
    for (std::size_t i = 0; i < of.size(); ++i)
      executed[i] = median(drawn(of[i]->samples, k, i)) / of[i]->executed_rate;
    taus.push_back(kendall_tau(predicted, executed));
  }
  out.low = quantile(taus, 0.05);
  out.high = quantile(taus, 0.95);
  return out;
}

std::pair<double, double> seconds_interval(const RaceEntry& entry) {
  std::vector<double> all;
  for (int64_t k = 0; k < kResamples; ++k)
    all.push_back(median(drawn(entry.samples, k, 0)) / entry.executed_rate);
  return {quantile(all, 0.05), quantile(all, 0.95)};
}

}  // namespace tandem::app

// SPDX-License-Identifier: Apache-2.0
#include "app/measure/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/statistics.h"
#include "schemes/progress.h"

namespace tandem::app {

namespace {

constexpr int64_t kResamples = 1000;
constexpr int64_t kSweepSeeds = 3, kReferenceSeeds = 9;
constexpr int32_t kRateIterations = 64;  // of a run whose rate counts, for each step between two averages

struct Ran {
  double samples = 0, rate = 0;
  bool there = false;
};

CheckCase case_of(const RaceTask& task, const std::string& scheme, int64_t workers, int64_t batch) {
  CheckCase c{task.model, batch, workers, scheme, 0};
  c.optimizer = "sgd";
  c.rate_limit = task.rate_limit;
  if (workers > 1) c.throttle = task.throttle;
  return c;
}

/// To the target on one node, since links change no sample; with a `period` instead kRateIterations times
/// that with the task's links.
Ran run_once(const RaceTask& task, const std::string& scheme, int64_t workers, int64_t batch, double rate,
             uint64_t seed, int32_t period, const std::atomic<bool>* stop) {
  CheckCase c = case_of(task, scheme, workers, batch);
  if (period == 0) c.rate_limit.clear();
  const ExecutionResult r = execute_case(c, backends_registry().at("cpu"), stop, [&](Execution& e) {
    e.data = &task.samples;
    e.seed = seed;
    e.rate.base = rate;
    if (period > 0) {
      // What a link carries before its limit holds is over after a quarter.
      e.iterations = kRateIterations * period;
      e.warmup = e.iterations / 4;
    } else {
      const int64_t step = batch * workers * make_program(e).micro_batches;
      e.target = LossTarget{task.loss, task.window};
      e.iterations = static_cast<int32_t>(std::max<int64_t>(8, task.most_samples / step));
      e.warmup = 3;
    }
  });
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

RaceEntry race_entry(const RaceTask& task, const RaceModel& model, const std::string& scheme, int64_t workers,
                     const std::string& profile) {
  std::shared_ptr<const Program> program;
  const Report report = predict_case(case_of(task, scheme, workers, task.batch), profile, 1, &program);
  const SyncShape shape = sync_shape(*program);
  const double delay = mean_delay(*program, report.staleness);
  RaceEntry out;
  out.scheme = scheme;
  out.workers = workers;
  out.learning_rate = model.learning_rate * learning_rate_share(shape, delay, model.noise);
  out.period = static_cast<int32_t>(shape.period);
  out.predicted_rate = report.samples_per_second;
  out.predicted_samples = shape.step_samples * steps_to_target(shape, delay, model.noise, model.fewest_steps);
  return out;
}

void race_run(const RaceTask& task, uint64_t seed, const std::atomic<bool>* stop, RaceEntry& entry) {
  const Ran r = run_once(task, entry.scheme, entry.workers, task.batch, entry.learning_rate, seed, 0, stop);
  if (stop != nullptr && stop->load()) return;
  entry.samples.push_back(r.samples);
  entry.missed += r.there ? 0 : 1;
}

void race_rate(const RaceTask& task, const std::atomic<bool>* stop, RaceEntry& entry) {
  const Ran r =
      run_once(task, entry.scheme, entry.workers, task.batch, entry.learning_rate, 1, entry.period, stop);
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

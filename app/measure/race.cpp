// SPDX-License-Identifier: Apache-2.0
#include "app/measure/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/statistics.h"
#include "schemes/learning/progress.h"

namespace tandem::app {

namespace {

constexpr int64_t kResamples = 1000;
constexpr int64_t kSweepSeeds = 3, kReferenceSeeds = 9;
constexpr int32_t kRateIterations = 64;  // of a run for a rate, per step between two averages

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

/// To the target on one node, since links do not change the samples needed; or with a `period` for
/// kRateIterations times that, with the task's links.
Ran run_once(const RaceTask& task, const std::string& scheme, int64_t workers, int64_t batch, double rate,
             uint64_t seed, int32_t period, const std::atomic<bool>* stop) {
  CheckCase c = case_of(task, scheme, workers, batch);
  if (period == 0) c.rate_limit.clear();
  const ExecutionResult r = execute_case(c, backends_registry().at("cpu"), stop, [&](Execution& e) {
    e.data = &task.samples;
    e.seed = seed;
    e.rate.base = rate;
    if (period > 0) {
      // The burst before a link's limit applies is over after a quarter.
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
  return {static_cast<double>(there ? *r.samples_to_target : task.most_samples),
          r.report.rate.samples_per_second, there};
}

double median_samples(const RaceTask& task, int64_t batch, double rate, int64_t seeds,
                      const std::atomic<bool>* stop) {
  std::vector<double> all;
  for (int64_t seed = 1; seed <= seeds; ++seed)
    all.push_back(run_once(task, "allreduce", 1, batch, rate, static_cast<uint64_t>(seed), 0, stop).samples);
  return median(all);
}

/// Learning rates in steps of `factor` from the best one, while they improve. Runs 1.5 times as long as the
/// best are stopped.
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

/// Of the same number of values, drawn with replacement.
std::vector<double> drawn(const std::vector<double>& from, int64_t resample, uint64_t entry) {
  std::vector<double> out;
  for (std::size_t i = 0; i < from.size(); ++i)
    out.push_back(from[draw_bits(0x72616365, static_cast<uint64_t>(resample), entry, i) % from.size()]);
  return out;
}

double rate_of(const std::vector<double>& runs) { return quantile(runs, 0.75); }

/// Of an entry: as executed, or resampled.
struct Outcome {
  double samples = 0, seconds = 0;
};
Outcome outcome(const RaceEntry& e) { return {e.executed_samples(), e.executed_seconds()}; }
Outcome outcome(const RaceEntry& e, int64_t resample, uint64_t entry) {
  const double samples = median(drawn(e.samples, resample, 2 * entry));
  return {samples, samples / rate_of(drawn(e.rates, resample, 2 * entry + 1))};
}

using Outcomes = std::vector<Outcome>;
RaceTau tau_of(const Outcomes& executed, const std::vector<Outcomes>& resampled,
               const std::function<double(const Outcomes&)>& tau) {
  std::vector<double> all;
  for (const Outcomes& o : resampled) all.push_back(tau(o));
  return {tau(executed), quantile(all, 0.05), quantile(all, 0.95)};
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
/// Pairs in whose order 90 % of the bootstraps agree.
Pairs pairs_apart(const std::vector<Outcomes>& resampled, std::size_t entries) {
  Pairs out;
  for (std::size_t i = 0; i < entries; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      std::vector<double> ratio;
      for (const Outcomes& o : resampled) ratio.push_back(o[i].seconds / o[k].seconds);
      if (quantile(ratio, 0.05) > 1 || quantile(ratio, 0.95) < 1) out.emplace_back(i, k);
    }
  }
  return out;
}

}  // namespace

double RaceEntry::executed_rate() const { return rate_of(rates); }
double RaceEntry::executed_samples() const { return median(samples); }
double RaceEntry::executed_seconds() const { return executed_samples() / executed_rate(); }

JsonWriter race_header(const RaceTask& t) {
  return {{"model", t.model},        {"data", t.data},
          {"batch", t.batch},        {"target_loss", t.loss},
          {"loss_window", t.window}, {"most_samples", t.most_samples},
          {"throttle", t.throttle},  {"rate_limit", t.rate_limit}};
}

std::string race_key(const char* what, const RaceEntry& e, int64_t number) {
  return fmt::format("{} {} {} {}", what, e.scheme, e.workers, number);
}

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
  // Each best rate implies the largest one; take their geometric mean.
  out.learning_rate =
      std::sqrt(small.learning_rate * (1 + out.noise / b) * large.learning_rate * (1 + out.noise / big));
  return out;
}

RaceReference race_reference(const RaceTask& task, int64_t batch, const std::atomic<bool>* stop,
                             RaceResults& results) {
  const auto measure = [&]() -> std::optional<RaceResults::Values> {
    constexpr double kFirst = 0.2, kFine = 1.4142135623730951;
    RaceReference best{batch, kFirst};
    best.samples = median_samples(task, batch, kFirst, kSweepSeeds, stop);
    for (const double factor : {2.0, 0.5, kFine, 1 / kFine}) improve(task, factor, stop, best);
    best.samples = median_samples(task, batch, best.learning_rate, kReferenceSeeds, stop);
    if (stop != nullptr && stop->load()) return {};
    return {{best.learning_rate, best.samples}};
  };
  const auto v = results.get(fmt::format("reference {}", batch), measure).value_or(RaceResults::Values(2));
  return {batch, v[0], v[1]};
}

RaceEntry race_entry(const RaceTask& task, const RaceModel& model, const std::string& scheme, int64_t workers,
                     const std::function<std::string()>& profile, RaceResults& results) {
  RaceEntry out;
  out.scheme = scheme;
  out.workers = workers;
  const auto predict = [&]() -> std::optional<RaceResults::Values> {
    std::shared_ptr<const Program> program;
    const Report report = predict_case(case_of(task, scheme, workers, task.batch), profile(), 1, &program);
    const SyncShape shape = sync_shape(*program);
    const StepsNeeded needed =
        steps_needed(shape, mean_delay(*program, report.staleness.all), model.noise, model.fewest_steps);
    return {{model.learning_rate * needed.learning_rate_share, shape.period, report.rate.samples_per_second,
             shape.step_samples * model.fewest_steps * needed.relative}};
  };
  const auto v = *results.get(race_key("prediction", out, task.batch), predict);
  out.learning_rate = v[0];
  out.period = static_cast<int32_t>(v[1]);
  out.predicted_rate = v[2];
  out.predicted_samples = v[3];
  return out;
}

void race_run(const RaceTask& task, int64_t seed, const std::atomic<bool>* stop, RaceResults& results,
              RaceEntry& e) {
  const auto measure = [&]() -> std::optional<RaceResults::Values> {
    const Ran r = run_once(task, e.scheme, e.workers, task.batch, e.learning_rate,
                           static_cast<uint64_t>(seed), 0, stop);
    if (stop != nullptr && stop->load()) return {};
    return {{r.samples, r.there ? 1.0 : 0.0}};
  };
  const auto v = results.get(race_key("samples", e, seed), measure);
  if (!v) return;
  e.samples.push_back((*v)[0]);
  e.missed += (*v)[1] == 0 ? 1 : 0;
}

void race_rate(const RaceTask& task, int64_t run, const std::atomic<bool>* stop, RaceResults& results,
               RaceEntry& e) {
  const auto measure = [&]() -> std::optional<RaceResults::Values> {
    const Ran r = run_once(task, e.scheme, e.workers, task.batch, e.learning_rate, 1, e.period, stop);
    if (stop != nullptr && stop->load()) return {};
    return {{r.rate}};
  };
  const auto v = results.get(race_key("rate", e, run), measure);
  if (v) e.rates.push_back((*v)[0]);
}

RaceOrder race_order(const std::vector<RaceEntry>& entries, int64_t workers) {
  std::vector<const RaceEntry*> of;
  std::vector<double> seconds, samples;  // predicted
  Outcomes executed;
  for (const RaceEntry& e : entries) {
    if (e.workers != workers || e.samples.empty() || e.rates.empty()) continue;
    of.push_back(&e);
    seconds.push_back(e.predicted_seconds());
    samples.push_back(e.predicted_samples);
    executed.push_back(outcome(e));
  }
  std::vector<Outcomes> resampled(kResamples);
  for (int64_t k = 0; k < kResamples; ++k)
    for (std::size_t i = 0; i < of.size(); ++i)
      resampled[static_cast<std::size_t>(k)].push_back(outcome(*of[i], k, i));
  const auto against = [&](const std::vector<double>& predicted, auto value) {
    return tau_of(executed, resampled, [&, value](const Outcomes& o) {
      std::vector<double> values;
      for (std::size_t i = 0; i < o.size(); ++i) values.push_back(value(o[i], *of[i]));
      return kendall_tau(predicted, values);
    });
  };
  RaceOrder out;
  out.seconds = against(seconds, [](const Outcome& o, const RaceEntry&) { return o.seconds; });
  out.samples = against(samples, [](const Outcome& o, const RaceEntry&) { return o.samples; });
  out.at_predicted_rates =
      against(seconds, [](const Outcome& o, const RaceEntry& e) { return o.samples / e.predicted_rate; });
  out.pairs = static_cast<int64_t>(of.size() * (of.size() - std::min<std::size_t>(1, of.size())) / 2);
  const Pairs apart = pairs_apart(resampled, of.size());
  out.apart = static_cast<int64_t>(apart.size());
  out.seconds_apart = tau_of(executed, resampled, [&](const Outcomes& o) {
    double agree = 0;
    for (const auto& [i, k] : apart)
      agree += (seconds[i] < seconds[k]) == (o[i].seconds < o[k].seconds) ? 1 : -1;
    return apart.empty() ? 0 : agree / static_cast<double>(apart.size());
  });
  return out;
}

std::pair<double, double> seconds_interval(const RaceEntry& entry) {
  std::vector<double> all;
  for (int64_t k = 0; k < kResamples; ++k) all.push_back(outcome(entry, k, 0).seconds);
  return {quantile(all, 0.05), quantile(all, 0.95)};
}

}  // namespace tandem::app

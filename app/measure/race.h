// SPDX-License-Identifier: Apache-2.0
#pragma once
// Schemes from the same start to the same loss on this machine: predicted and executed. What one worker needs
// in small and in large steps is measured; all schemes on several workers are predicted from that.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "app/measure/cross_check.h"
#include "app/measure/race_results.h"

namespace tandem::app {

/// What is trained, and to which loss.
struct RaceTask {
  std::string model, data;
  Dataset samples;  ///< of `data`
  int64_t batch = 16;
  double loss = 0;
  int64_t window = 1024;     ///< LossTarget
  int64_t most_samples = 0;  ///< a run that is not there by then counts as that late
  int64_t seeds = 20;
  double throttle = 1;          ///< of the last worker
  std::string rate_limit = {};  ///< of links between nodes of one worker each, "10Mbit/s"; empty: one node
};

/// One worker to the target in steps of `batch` samples, at the best of the learning rates tried.
struct RaceReference {
  int64_t batch = 0;
  double learning_rate = 0, samples = 0;  ///< median over the seeds
};

/// From two references: E = S_min (B + noise), and the largest useful learning rate by McCandlish et al.
/// 2018. Throws InputError where large steps need no more samples than small ones, or less: the
/// task does not tell batches apart.
struct RaceModel {
  double fewest_steps = 0, noise = 0, learning_rate = 0;
};
RaceModel race_model(const RaceReference& small, const RaceReference& large);

struct RaceEntry {
  std::string scheme;
  int64_t workers = 1;
  double learning_rate = 0;
  int32_t period = 1;                                ///< steps between two averages of models
  double predicted_samples = 0, predicted_rate = 0;  ///< to the target, and samples/s
  std::vector<double> rates;                         ///< [run]: executed samples/s
  std::vector<double> samples;                       ///< [seed]: executed to the target
  int64_t missed = 0;  ///< seeds that were not there after RaceTask::most_samples
  double predicted_seconds() const { return predicted_samples / predicted_rate; }
  double executed_rate() const;     ///< upper quartile: what else runs on the machine only slows
  double executed_samples() const;  ///< the seeds' median
  double executed_seconds() const;  ///< which takes so long at the executed rate
};

/// Kendall's tau-b, and its 90 % interval over bootstraps of seeds and runs.
struct RaceTau {
  double tau = 0, low = 0, high = 0;
};
/// The predicted order against the executed one, of those with that many workers that have results.
struct RaceOrder {
  RaceTau seconds;  ///< by time
  RaceTau samples;  ///< by samples to the target alone
  /// By time where executed samples are over predicted rates: what the rates' noise does not touch.
  RaceTau at_predicted_rates;
  int64_t pairs = 0;
  /// Pairs whose executed times differ: 90 % of the bootstraps have the same one ahead. And by time, of these
  /// pairs alone.
  int64_t apart = 0;
  RaceTau seconds_apart;
};
RaceOrder race_order(const std::vector<RaceEntry>& entries, int64_t workers);
/// 90 % of the executed seconds by bootstraps of the seeds and of the runs for the rate.
std::pair<double, double> seconds_interval(const RaceEntry& entry);

/// What a file of results is of.
JsonWriter race_header(const RaceTask& task);
// What follows recalls from `results` what was measured before. With `stop` set the answer is of no use.

/// Runs one worker with learning rates a factor of two apart around the best. Throws DeviceError.
RaceReference race_reference(const RaceTask& task, int64_t batch, const std::atomic<bool>* stop,
                             RaceResults& results);
/// Predicts with the profile that `profile` gives; the learning rate is the model's. Throws InputError.
RaceEntry race_entry(const RaceTask& task, const RaceModel& model, const std::string& scheme, int64_t workers,
                     const std::function<std::string()>& profile, RaceResults& results);
/// Executes its own run for the rate, with the task's links, and adds it. Throws DeviceError.
void race_rate(const RaceTask& task, int64_t run, const std::atomic<bool>* stop, RaceResults& results,
               RaceEntry& entry);
/// Executes one seed to the target and adds it: on one node, since links change no sample. Throws
/// DeviceError.
void race_run(const RaceTask& task, int64_t seed, const std::atomic<bool>* stop, RaceResults& results,
              RaceEntry& entry);
/// "samples SCHEME WORKERS SEED": under which `results` know that.
std::string race_key(const char* what, const RaceEntry& entry, int64_t number);

}  // namespace tandem::app

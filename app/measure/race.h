// SPDX-License-Identifier: Apache-2.0
#pragma once
// Schemes from the same start to the same loss on this machine, predicted and executed. One worker is
// measured with small and large steps; all schemes on several workers are predicted from that.
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
  int64_t most_samples = 0;  ///< a run that has not reached the loss by then counts as that late
  int64_t seeds = 20;
  double throttle = 1;          ///< of the last worker
  std::string rate_limit = {};  ///< of links between nodes of one worker each, "10Mbit/s"; empty: one node
};

/// One worker to the target in steps of `batch` samples, at the best learning rate tried.
struct RaceReference {
  int64_t batch = 0;
  double learning_rate = 0, samples = 0;  ///< median over the seeds
};

/// From two references: E = S_min (B + noise), and the largest useful learning rate by McCandlish et al.
/// 2018. Throws InputError if large steps need no more samples than small ones: the task does not distinguish
/// batch sizes.
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
  int64_t missed = 0;  ///< seeds that did not reach the target within RaceTask::most_samples
  double predicted_seconds() const { return predicted_samples / predicted_rate; }
  double executed_rate() const;     ///< upper quartile: other load can only slow it down
  double executed_samples() const;  ///< the seeds' median
  double executed_seconds() const;  ///< the time of these samples at the executed rate
};

/// Kendall's tau-b, and its 90 % interval over bootstraps of seeds and runs.
struct RaceTau {
  double tau = 0, low = 0, high = 0;
};
/// The predicted order against the executed one, of entries with that many workers and results.
struct RaceOrder {
  RaceTau seconds;  ///< by time
  RaceTau samples;  ///< by samples to the target alone
  /// By time, with executed samples over predicted rates: free of the rates' noise.
  RaceTau at_predicted_rates;
  int64_t pairs = 0;
  /// Pairs whose executed times differ: 90 % of the bootstraps agree on the faster one. And tau by time over
  /// these pairs.
  int64_t apart = 0;
  RaceTau seconds_apart;
};
RaceOrder race_order(const std::vector<RaceEntry>& entries, int64_t workers);
/// 90 % interval of the executed seconds, by bootstraps of the seeds and of the runs for the rate.
std::pair<double, double> seconds_interval(const RaceEntry& entry);

/// Identifies the race in a file of results.
JsonWriter race_header(const RaceTask& task);
// The functions below take from `results` what was measured before. If `stop` is set their result is
// meaningless.

/// Runs one worker with learning rates in factors of two around the best. Throws DeviceError.
RaceReference race_reference(const RaceTask& task, int64_t batch, const std::atomic<bool>* stop,
                             RaceResults& results);
/// Predicts with the profile returned by `profile`; the learning rate is the model's. Throws InputError.
RaceEntry race_entry(const RaceTask& task, const RaceModel& model, const std::string& scheme, int64_t workers,
                     const std::function<std::string()>& profile, RaceResults& results);
/// Executes one run for the rate, with the task's links, and adds it. Throws DeviceError.
void race_rate(const RaceTask& task, int64_t run, const std::atomic<bool>* stop, RaceResults& results,
               RaceEntry& entry);
/// Executes one seed to the target and adds it: on one node, since links do not change the samples needed.
/// Throws DeviceError.
void race_run(const RaceTask& task, int64_t seed, const std::atomic<bool>* stop, RaceResults& results,
              RaceEntry& entry);
/// "samples SCHEME WORKERS SEED": the key in `results`.
std::string race_key(const char* what, const RaceEntry& entry, int64_t number);

}  // namespace tandem::app

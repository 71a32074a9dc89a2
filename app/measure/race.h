// SPDX-License-Identifier: Apache-2.0
#pragma once
// Schemes from the same start to the same loss on this machine: predicted and executed. What one worker needs
// in small and in large steps is measured; all schemes on several workers are predicted from that.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "app/measure/cross_check.h"

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
/// 2018, equation 2.6. Throws InputError where large steps need no more samples than small ones, or less: the
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
  double executed_rate = 0;                          ///< the fastest of race_rate()
  std::vector<double> samples;                       ///< [seed]: executed to the target
  int64_t missed = 0;  ///< seeds that were not there after RaceTask::most_samples
  double predicted_seconds() const { return predicted_samples / predicted_rate; }
  double executed_samples() const;  ///< the seeds' median
  double executed_seconds() const;  ///< which takes so long at the executed rate
};

/// The order of predicted times against that of executed ones: Kendall's tau-b, and its 90 % interval over
/// bootstraps of the seeds.
struct RaceOrder {
  double tau = 0, low = 0, high = 0;
};
RaceOrder race_order(const std::vector<RaceEntry>& entries, int64_t workers);
/// 90 % of the executed seconds by bootstraps of the seeds.
std::pair<double, double> seconds_interval(const RaceEntry& entry);

/// Runs one worker with learning rates a factor of two apart around the best. Throws DeviceError.
RaceReference race_reference(const RaceTask& task, int64_t batch, const std::atomic<bool>* stop);
/// Predicts with the profile; the learning rate is the model's. Throws InputError.
RaceEntry race_entry(const RaceTask& task, const RaceModel& model, const std::string& scheme, int64_t workers,
                     const std::string& profile);
/// Executes a run of its own for the rate, with the task's links. Throws DeviceError.
void race_rate(const RaceTask& task, const std::atomic<bool>* stop, RaceEntry& entry);
/// Executes one seed to the target and adds it: on one node, since links change no sample. Throws
/// DeviceError.
void race_run(const RaceTask& task, uint64_t seed, const std::atomic<bool>* stop, RaceEntry& entry);

}  // namespace tandem::app

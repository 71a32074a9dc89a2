// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is asked besides the rate: what failures leave of it, and the time to a target, which counts them.
#include <cstdint>
#include <optional>
#include <vector>

#include "answers/values.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// --mtbf and what belongs to it. Seconds.
struct Failures {
  double device_mtbf = 0, node_mtbf = 0;  ///< 0: these do not fail
  double every = 0;                       ///< work between two checkpoints; 0: `every_steps`
  int64_t every_steps = 0;                ///< 0 too: the optimal interval
  std::optional<double> checkpoint;       ///< unset: the bytes over the storage's bandwidth
  std::optional<double> restart;          ///< unset: a checkpoint is read back, nothing else
  double repair = 0;
  int64_t spares = 0;
  bool elastic = false;
};

/// A target, and what is known of how the model learns.
struct ProgressQuestion {
  TrainingProgress::Target target = TrainingProgress::Target::loss;
  double value = 0;
  std::optional<double> noise_scale;  ///< samples
  /// Samples that one model needed to reach the target, with steps of needed_step samples.
  std::optional<double> needed;
  double needed_step = 0;
  std::optional<double> epoch_samples;
};

/// --mtbf, --node-mtbf, --checkpoint-every, ... with their help.
std::vector<Option> failure_flags();
/// Nothing where neither --mtbf nor --node-mtbf is given. Throws UsageError.
std::optional<Failures> read_failures(const Values& values);

/// --target-loss, --epochs, --tokens, --samples, --noise-scale, --samples-to-target and --epoch-samples with
/// their help.
std::vector<Option> progress_flags();
/// Nothing where no target is given. Throws UsageError: two targets, or what belongs to a target without one.
std::optional<ProgressQuestion> read_progress_question(const Values& values);

}  // namespace tandem::answers

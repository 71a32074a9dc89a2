// SPDX-License-Identifier: Apache-2.0
#pragma once
// What samples are worth under a scheme: how many steps and samples a training needs until its loss is at a
// target, against one that steps by the whole gradient. Laws and models of the literature, none of it fitted;
// docs/progress.md says where they come from and what they leave out. Pure functions and plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "schemes/learning/sync_shape.h"

namespace tandem::schemes {

/// What a target takes, each time at the best learning rate.
struct StepsNeeded {
  double relative = 1;             ///< steps over those that the whole gradient needs, S / S_min
  double learning_rate_share = 1;  ///< of the largest learning rate that is any good with the whole gradient
};

/// Of one model
///
///   S / S_min = 1 + delay + noise / B
///
/// - 1 + noise / B, and the learning rate 1 / (1 + noise / B): McCandlish et al. 2018, "An Empirical Model of
///   Large-Batch Training": its laws of steps and of the learning rate by the batch.
/// - delay: Stich and Karimireddy 2020, "The Error-Feedback Framework", the rate of delayed gradients,
///   O(sigma^2 / (mu epsilon) + L delay / mu): a delay multiplies the part of the steps that curvature limits
///   and leaves the part of the noise alone; its constant is taken as that of no delay.
///   The delay from which on it costs anything is noise / B.
///
/// and of models that step apart as many times as much as in the noisy quadratic model
/// (schemes/learning/noisy_quadratic.h), in which one model needs what this says.
/// `noise`: the gradient noise scale in samples, >= 0; `delay` in steps, >= 0; `fewest`: S_min, > 0. O(1) for
/// one model; else a second at the most, since a long training is taken to be like one of 1000 fewest steps.
StepsNeeded steps_needed(const SyncShape& shape, double delay, double noise, double fewest);

/// S_min from what one model needed: that many samples with that many in a step, without delay.
double fewest_steps(double samples, double step_samples, double noise);

/// A report's answer to --target-loss, --epochs, --tokens or --samples. What is unknown is not there.
struct TrainingProgress {
  enum class Target : uint8_t { loss, epochs, tokens, samples };
  Target target = Target::loss;
  double value = 0;       ///< of the loss, or number of epochs, tokens or samples
  bool measured = false;  ///< samples and seconds are those of an execution that got there
  std::optional<double> samples, steps, seconds, seconds_low, seconds_high;  ///< to the target
  /// Useful share of the time under failures, by which the seconds are longer; unset: nothing fails.
  std::optional<double> goodput;
  /// Of a budget of samples: until this training is where the smallest steps are after that many.
  std::optional<double> seconds_as_far;
  double step_samples = 1, delay = 0, models = 1, period = 1, mixing = 0;  ///< SyncShape's
  /// Samples.
  std::optional<double> noise_scale;
  std::string noise_source;
  /// Of the samples that a training in the smallest steps would need, over those that this one needs.
  std::optional<double> efficiency;
  std::optional<double> learning_rate_share;
  std::vector<std::string> sources;  ///< of formulas and figures
  std::vector<std::string> unknown;  ///< what is missing and how to get it
};
std::string_view name(TrainingProgress::Target target);

JsonWriter progress_json(const TrainingProgress& progress);
/// Throws InputError.
TrainingProgress read_progress(const Json& document);

}  // namespace tandem::schemes

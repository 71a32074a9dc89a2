// SPDX-License-Identifier: Apache-2.0
#pragma once
// What samples are worth under a scheme: how many steps and samples a training needs until its loss is at a
// target, against one that steps by the whole gradient. Closed forms of the literature, none of it fitted;
// docs/progress.md derives them and says what they leave out. Pure functions and plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "schemes/program.h"

namespace tandem::schemes {

/// What of a Program decides on progress.
struct SyncShape {
  double step_samples = 1;  ///< B: whose gradients make one step, of all models together
  double models = 1;        ///< m: that step apart between two averages; 1: a single one
  double period = 1;        ///< tau: steps between two averages
  /// zeta: what an average leaves of the distance between models; 0 where they are alike behind it, near 1
  /// where each average joins few of them.
  double mixing = 0;
  /// By what an outer optimiser multiplies what models moved in the mean, its momentum summed up: rate / (1 -
  /// momentum). 1 without one.
  double outer_step = 1;
  int64_t apart_from = 0;  ///< steps whose gradients are summed first (post-local SGD)
};

/// O(ops).
SyncShape sync_shape(const Program& program);

/// Steps by which a gradient is late in the mean: what the Program states, or of stores that count it the
/// mean of `staleness`, theirs.
double mean_delay(const Program& program, const Histogram& staleness);

/// Steps to a target over those that the whole gradient needs, each at its best learning rate:
///
///   S / S_min = 1 + delay + kappa noise / B
///
/// with kappa = 1 + m (tau (1 + zeta^2) / (1 - zeta^2) - 1) / (1 + noise / B) where models step apart.
/// - 1 + noise / B: McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", equation 2.11.
/// - delay: Stich and Karimireddy 2020, "The Error-Feedback Framework", the rate of delayed gradients,
///   O(sigma^2 / (mu epsilon) + L delay / mu): a delay multiplies the part of the steps that curvature limits
///   and leaves the part of the noise alone; its constant is taken as that of no delay.
///   The delay from which on it costs anything is noise / B.
/// - kappa: Wang and Joshi 2021, "Cooperative SGD", theorem 1: models that step apart add to the noise, at a
///   learning rate eta, by eta L m (tau (1 + zeta^2) / (1 - zeta^2) - 1); eta L is that of the first rule, 1
///   / (1 + noise / B).
/// `noise`: the gradient noise scale in samples, >= 0; `delay` in steps, >= 0.
double relative_steps(const SyncShape& shape, double delay, double noise);

/// Steps until the target, of which the first SyncShape::apart_from go by summed gradients.
double steps_to_target(const SyncShape& shape, double delay, double noise, double fewest_steps);

/// The best learning rate, as a share of the largest that is any good with the whole gradient: McCandlish et
/// al. 2018, equation 2.6, with delay and kappa as above, over SyncShape::outer_step.
double learning_rate_share(const SyncShape& shape, double delay, double noise);

/// S_min from what one model needed: so many samples with so many in a step, without delay.
double fewest_steps(double samples, double step_samples, double noise);

/// A report's answer to --target-loss, --epochs or --tokens. What is unknown is not there.
struct TrainingProgress {
  enum class Target : uint8_t { loss, epochs, tokens };
  Target target = Target::loss;
  double value = 0;       ///< of the loss, so many epochs or tokens
  bool measured = false;  ///< samples and seconds are those of an execution that got there
  std::optional<double> samples, steps, seconds, seconds_low, seconds_high;  ///< to the target
  double step_samples = 1, delay = 0, models = 1, period = 1, mixing = 0;    ///< SyncShape's
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time to train, and what samples are worth under the scheme, where a target is asked for: --target-loss,
// --epochs, --tokens or --samples. The formulas are schemes/progress.h's; what they need comes from options,
// from what is published of the model (calibration/profiles/progress.json), or from a run. What is not known
// is said.
#include <optional>
#include <vector>

#include "app/console/cli.h"
#include "models/graph.h"
#include "schemes/program.h"
#include "schemes/report.h"

namespace tandem::app {

/// What the options say.
struct ProgressQuestion {
  TrainingProgress::Target target = TrainingProgress::Target::loss;
  double value = 0;
  std::optional<double> noise_scale;  ///< samples
  /// Samples that one model needed until the target, with so many in a step.
  std::optional<double> needed;
  double needed_step = 0;
  std::optional<double> epoch_samples;
};

/// --target-loss, --epochs, --tokens, --samples, --noise-scale, --samples-to-target and --epoch-samples with
/// their help.
std::vector<Flag> progress_flags();
/// Nothing where no target is given. Throws UsageError: two targets, or what belongs to a target without one.
std::optional<ProgressQuestion> read_progress_question(const Arguments& arguments);

/// What is published of how a model of this name learns.
struct LearningFacts {
  std::optional<double> epoch_samples;
  std::string epoch_source;
  /// For a target loss in nats a token.
  std::optional<double> noise_tokens, fewest_steps;
  double least_loss = 0;  ///< that so many parameters reach at all; 0: unknown
  std::string source;
};
/// `target_loss`: 0 where the target is another. Throws InputError where the file is damaged. O(layers).
LearningFacts learning_facts(const Graph& graph, double target_loss);

/// Fills report.progress, where the report fits: of the Program that it is about. Its times count
/// report.goodput where that is there: fill it before. O(ops).
void add_progress(const ProgressQuestion& question, const Graph& graph, const Program& program,
                  Report& report);

}  // namespace tandem::app

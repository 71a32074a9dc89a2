// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time to train, and what samples are worth under the scheme, where a target is asked for: --target-loss,
// --epochs, --tokens or --samples. The formulas are schemes/progress.h's; what they need comes from options,
// from what is published of the model (calibration/profiles/progress.json), or from a run. What is not known
// is said.
#include <optional>
#include <vector>

#include "answers/aims.h"
#include "models/graph.h"
#include "schemes/program.h"
#include "schemes/report.h"

namespace tandem::answers {

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

}  // namespace tandem::answers

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time to train, and the worth of a sample under the scheme, for a target: --target-loss, --epochs, --tokens
// or --samples. The formulas are schemes/learning/progress.h's; their inputs come from options, from
// publications on the model (calibration/profiles/progress.json) or from a run. Missing inputs are named.
#include <optional>
#include <vector>

#include "answers/aims.h"
#include "models/graph.h"
#include "schemes/program/program.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// Published figures of how the model of this name learns.
struct LearningFacts {
  std::optional<double> epoch_samples;
  std::string epoch_source;
  /// For a target loss in nats a token.
  std::optional<double> noise_tokens, fewest_steps;
  double least_loss = 0;  ///< the lowest loss a model of this size reaches; 0: unknown
  std::string source;
};
/// `target_loss`: 0 for another kind of target. Throws InputError if the file is damaged. O(layers).
LearningFacts learning_facts(const Graph& graph, double target_loss);

/// Fills report.progress, for the report's Program, if the report fits. Its times include report.goodput, so
/// fill that first. O(ops).
void add_progress(const ProgressQuestion& question, const Graph& graph, const Program& program,
                  Report& report);

}  // namespace tandem::answers

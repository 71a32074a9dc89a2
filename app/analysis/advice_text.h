// SPDX-License-Identifier: Apache-2.0
#pragma once
// Advice as text and JSON.
#include <string>
#include <vector>

#include "answers/advise.h"
#include "app/analysis/run_command.h"

namespace tandem::app {

/// The question, and how to ask `predict` and `run` about a choice.
struct AdviceContext {
  const System* system = nullptr;
  const Space* space = nullptr;
  std::string heading;               ///< "vgg16 on dgx1-v100 · 256 samples in a step · momentum"
  std::vector<std::string> predict;  ///< for the first choice, word by word: "tandem", "predict", ...
  RunCommand run;
};

/// "pipeline 4 with 16 micro-batches: its bubble is 12 % of a step".
std::vector<std::string> reasons(const Choice& choice, const AdviceContext& context);

/// Table, reasons, results of the other schemes, and the two commands. Lines are at most `columns` wide (0:
/// no limit), except the commands.
std::string advice_text(const Advice& advice, const AdviceContext& context, int columns);
/// A row per choice.
std::string advice_csv(const Advice& advice);
/// A "tandem-advice-1" document (docs/formats/advice.schema.json).
std::string advice_json(const Advice& advice, const AdviceContext& context);

}  // namespace tandem::app

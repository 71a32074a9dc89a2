// SPDX-License-Identifier: Apache-2.0
#pragma once
// Advice with its reasons, as JSON.
#include <string>
#include <vector>

#include "answers/advise.h"
#include "answers/run_command.h"

namespace tandem::answers {

/// The question, and how to ask `predict` and `run` about the first choice.
struct AdviceContext {
  const System* system = nullptr;
  const Space* space = nullptr;
  std::vector<std::string> predict;  ///< word by word: "tandem", "predict", ...
  RunCommand run;
};

/// "pipeline 4 with 16 micro-batches: its bubble is 12 % of a step".
std::vector<std::string> reasons(const Choice& choice, const AdviceContext& context);

/// A "tandem-advice-1" document (docs/formats/advice.schema.json).
std::string advice_json(const Advice& advice, const AdviceContext& context);

}  // namespace tandem::answers

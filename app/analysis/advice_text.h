// SPDX-License-Identifier: Apache-2.0
#pragma once
// Advice as people and scripts read it.
#include <string>
#include <vector>

#include "answers/advise.h"

namespace tandem::app {

/// What was asked, and how to ask `predict` and `run` about a choice.
struct AdviceContext {
  const System* system = nullptr;
  const Space* space = nullptr;
  std::string heading;                 ///< "vgg16 on dgx1-v100 · 256 samples in a step · momentum"
  std::vector<std::string> predict;    ///< of the first choice, word by word: "tandem", "predict", ...
  std::vector<std::string> run;        ///< empty: more workers than a run takes
  std::vector<std::string> run_notes;  ///< in what the run differs from the prediction
};

/// "pipeline 4 with 16 micro-batches: its bubble is 12 % of a step".
std::vector<std::string> reasons(const Choice& choice, const AdviceContext& context);

/// As a POSIX shell takes it.
std::string shell_line(const std::vector<std::string>& words);

/// Table, reasons, what became of the other schemes, and the two commands. Lines are at most `columns` wide
/// (0: no limit), the commands apart.
std::string advice_text(const Advice& advice, const AdviceContext& context, int columns);
/// A row per choice.
std::string advice_csv(const Advice& advice);
/// A "tandem-advice-1" document (docs/formats/advice.schema.json).
std::string advice_json(const Advice& advice, const AdviceContext& context);

}  // namespace tandem::app

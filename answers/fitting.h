// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to change if a model does not fit, from the memory model alone; nothing is simulated.
#include <string>
#include <vector>

#include "answers/question.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// Where none of these reports of `question` fits: adds what would help (Report::remedies) to the one with
/// the most devices and returns the same as a text, which is empty where one fits. Besides sim::remedies()
/// these are changes of the question: weights in fewer bits, recomputation, a fused loss, shorter sequences,
/// alone and combined. Cost: some sixty compilations.
std::string add_remedies(const Question& question, std::vector<Report>& reports);

/// What a prediction that does not fit needs, which of these remedies would help, and where else to ask.
std::string fit_text(const Request& request, const MemoryUse& needs, const std::vector<Remedy>& remedies);

}  // namespace tandem::answers

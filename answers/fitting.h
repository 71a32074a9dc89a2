// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to change where a model does not fit: found by arithmetic of memory alone, nothing is simulated.
#include <string>

#include "answers/question.h"

namespace tandem::answers {

/// sim::fit_advice() of so many devices, with what only the question can be asked otherwise: weights in fewer
/// bits, recomputation, a loss in one kernel, shorter sequences, alone and together. Each was tried. Cost:
/// some twenty compilations.
std::string fit_text(const Question& question, int64_t devices);

}  // namespace tandem::answers

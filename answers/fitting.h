// SPDX-License-Identifier: Apache-2.0
#pragma once
// What to change if a model does not fit, from the memory model alone; nothing is simulated.
#include <string>

#include "answers/question.h"

namespace tandem::answers {

/// sim::fit_advice() for that number of devices, plus what needs the question: weights in fewer bits,
/// recomputation, a fused loss, shorter sequences, alone and combined. Each suggestion was checked. Cost:
/// about twenty compilations.
std::string fit_text(const Question& question, int64_t devices);

}  // namespace tandem::answers

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Published rows as questions.
#include <string>
#include <utility>
#include <vector>

#include "answers/question.h"

namespace tandem::calibration {

/// The question that a row of published figures asks. Uses those keys of the row that are options of a
/// question ("model", "system", "set": an object, "scheme", "precision", "optimizer", "recipe", "recompute",
/// "memory", "batch_norm"); `more` replaces them where both have the same. An error is an InputError at the
/// place of its key.
Question question_of(const Json& row, const std::vector<std::pair<std::string, std::string>>& more = {});

}  // namespace tandem::calibration

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
/// "memory", "batch_norm", "adapter", "offload"); `more` replaces them where both have the same. An error is
/// an InputError at the place of its key.
Question question_of(const Json& row, const std::vector<std::pair<std::string, std::string>>& more = {});

/// Options for a question on `devices` devices of a system, with more nodes where it has fewer. An unknown
/// system is an InputError at `place`.
std::vector<std::pair<std::string, std::string>> on_devices(const std::string& system, int64_t devices,
                                                            const Place& place);

}  // namespace tandem::calibration

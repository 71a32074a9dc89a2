// SPDX-License-Identifier: Apache-2.0
#pragma once
// The closing line of predict: what one change would give, each figure simulated.
#include <string>
#include <vector>

#include "answers/question.h"

namespace tandem::answers {

/// About the last of `reports` that fits; they answer `question`: twice the resource it is bound by and the
/// best other stock system with the same chip where that is no kernel, a smaller number format when compute
/// does, synthetic input when input does; then whether the figures are calibrated. One sentence each; empty
/// where none fits.
std::string closing_line(const Question& question, const std::vector<Report>& reports);

/// "--precision tf32 would give +159 %." of a report that is bound by compute in fp32 where its devices are
/// faster with a smaller format; else "".
std::string format_hint(const Question& question, const Report& report);

/// Adds a note for each --set without which the report would be the same, found by a prediction each.
void note_idle_settings(const Question& question, Report& report);

}  // namespace tandem::answers

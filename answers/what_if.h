// SPDX-License-Identifier: Apache-2.0
#pragma once
// The closing line of predict: what one change would give, each by a simulation.
#include <string>
#include <vector>

#include "answers/question.h"

namespace tandem::answers {

/// For the last of `reports` (answers to `question`) that fits: the effect of twice its bottleneck, of the
/// best other stock system with the same chip if that is not a kernel, of a smaller number format if
/// compute-bound, of synthetic input if input-bound; then whether the figures are calibrated. One sentence
/// each; empty if none fits.
std::string closing_line(const Question& question, const std::vector<Report>& reports);

/// "--precision tf32 would give +159 %." for a report that is compute-bound in fp32 on devices that are
/// faster with a smaller format; else "".
std::string format_hint(const Question& question, const Report& report);

/// Adds a note for each --set that does not change the report, found by one prediction each.
void note_idle_settings(const Question& question, Report& report);

}  // namespace tandem::answers

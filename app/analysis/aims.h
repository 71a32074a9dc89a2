// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is asked beside the rate: what failures leave of it, and the time to a target, which counts them.
#include <optional>
#include <vector>

#include "app/analysis/failures.h"
#include "app/analysis/progress.h"
#include "app/analysis/question.h"
#include "app/console/cli.h"

namespace tandem::app {

struct Aims {
  std::optional<Failures> failures;
  std::optional<ProgressQuestion> target;
};

/// failure_flags() and progress_flags().
std::vector<Flag> aim_flags();
/// Throws UsageError.
Aims read_aims(const Arguments& arguments);
/// Fills goodput and progress of a report that answers the question, where it fits. Throws as add_goodput().
void add_aims(const Aims& aims, const Question& question, Report& report);

}  // namespace tandem::app

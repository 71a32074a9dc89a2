// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two answers side by side.
#include <vector>

#include "answers/question.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// Two reports, mostly on the same number of devices, and their questions if available. Does not own the
/// questions.
struct ReportPair {
  Report a, b;
  const Question* asked_a = nullptr;
  const Question* asked_b = nullptr;
};

/// Reports of both sides matched by device count; counts that only one side has are left out.
std::vector<ReportPair> matched(const std::vector<Report>& a, const std::vector<Report>& b);

}  // namespace tandem::answers

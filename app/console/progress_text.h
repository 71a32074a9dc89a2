// SPDX-License-Identifier: Apache-2.0
#pragma once
// The progress of a report as text.
#include <string>

#include "schemes/report/report.h"

namespace tandem::app {

/// Sentences about time to train, one line per report with progress (with its device count if there are
/// several); then what samples are worth, and what is unknown.
std::string progress_lines(const std::vector<Report>& reports);

}  // namespace tandem::app

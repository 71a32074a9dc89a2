// SPDX-License-Identifier: Apache-2.0
#pragma once
// The progress of a report as text.
#include <string>

#include "schemes/report.h"

namespace tandem::app {

/// "3.2 h", of whatever length.
std::string duration_text(double seconds);
/// Sentences about time to train, what samples are worth, and what is not known, each line ended; empty where
/// the report has no progress.
std::string progress_lines(const Report& report);
/// Of several reports, each with its device count in front where there are more than one.
std::string progress_lines(const std::vector<Report>& reports);

}  // namespace tandem::app

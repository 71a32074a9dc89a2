// SPDX-License-Identifier: Apache-2.0
#pragma once
// The progress of a report as text.
#include <string>

#include "schemes/report.h"

namespace tandem::app {

/// Sentences about time to train, a line for each report that has progress, with its device count in front
/// where there are more than one; then what samples are worth, and what is not known.
std::string progress_lines(const std::vector<Report>& reports);

}  // namespace tandem::app

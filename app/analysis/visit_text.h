// SPDX-License-Identifier: Apache-2.0
#pragma once
// A visit to several GPUs next to its predictions: `tandem validate --add`.
#include <string>
#include <vector>

#include "calibration/judged_visit.h"

namespace tandem::app {

/// Tables of rates, staleness, watts and all-reduces, each with its errors; a section for each visit.
std::string visits_judged_markdown(const std::vector<calibration::VisitJudged>& visits);
/// Every training and every all-reduce, all columns, one header line (RFC 4180).
std::string visits_judged_csv(const std::vector<calibration::VisitJudged>& visits);

}  // namespace tandem::app

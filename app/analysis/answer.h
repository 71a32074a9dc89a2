// SPDX-License-Identifier: Apache-2.0
#pragma once
// The answer to a question: what predict, plot and compare report.
#include <cstdint>
#include <vector>

#include "app/analysis/question.h"
#include "schemes/report.h"

namespace tandem::app {

/// simulate() with the bottleneck found by turning the machine's resources (app/analysis/elasticity.h), its
/// wall time and the --set changes among the report's inputs.
Report answer(const Question& question, int64_t devices);
/// One report per device count, in order.
std::vector<Report> answer(const Question& question);
/// Throws InputError with what would help when none of the reports, which answer `question`, fits.
void check_fits(const Question& question, const std::vector<Report>& reports);

}  // namespace tandem::app

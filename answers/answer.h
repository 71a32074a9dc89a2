// SPDX-License-Identifier: Apache-2.0
#pragma once
// The door: a question in, a report out. What predict, compare, plot and advise report.
#include <cstdint>
#include <vector>

#include "answers/question.h"
#include "schemes/report.h"

namespace tandem::answers {

/// How much of an answer is wanted; each holds what those before it do.
enum class Depth : uint8_t {
  rate,    ///< samples/s with its interval and shares of the time; nothing is said of memory or a speed-up
  report,  ///< memory, speed-up, jobs on the same machine, goodput and time to a target
  full,    ///< the bottleneck, found by turning the machine's resources, and which settings change nothing
};

/// The answer on so many devices. Any thread may call it at any time, also of one question: nothing is
/// written but the result. The same question gives the same report, whatever else runs and however many
/// threads there are, but for Report::wall_seconds. A model that does not fit is a report with `fits` false
/// (check_fits() says what would help). Cost: `report` two simulations, `full` some three to ten rates more.
/// Throws InputError: device counts that the system lacks, a scheme that cannot run so, a precision that the
/// device lacks.
Report predict(const Question& question, int64_t devices, Depth depth = Depth::full);
/// One report for each of Question::devices, in order.
std::vector<Report> predict(const Question& question, Depth depth = Depth::full);
/// Throws InputError with what would help when none of the reports, which answer `question`, fits.
void check_fits(const Question& question, const std::vector<Report>& reports);

}  // namespace tandem::answers

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The entry: a question in, a report out. Used by predict, compare, plot and advise.
#include <cstdint>
#include <vector>

#include "answers/question.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// How much of an answer is computed; each depth includes those before it.
enum class Depth : uint8_t {
  rate,    ///< samples/s with its interval and time shares; no memory, no speed-up
  fit,     ///< memory, goodput and time to a target; no rate where the model does not fit
  report,  ///< speed-up and jobs on the same machine
  full,    ///< the bottleneck, found by perturbing the machine's resources, and the settings that have no
           ///< effect
};

/// The answer on `devices` devices. Any thread may call it at any time, also with a shared question: it
/// writes nothing but the result. The same question gives the same report for any number of threads, except
/// Report::Evaluation::wall_seconds. A model that does not fit gives a report with `fits` false. Cost:
/// `fit` a fifth more than `rate`, `report` two simulations, `full` three to ten rates more. Throws
/// InputError: the system has too few devices, the scheme cannot run there, or the devices lack the
/// precision.
Report predict(const Question& question, int64_t devices, Depth depth = Depth::full);
/// The same, with `timeline` in place of the question's own.
Report predict(const Question& question, int64_t devices, Depth depth, bool timeline);
/// One report for each of Question::devices, in order. At `full`, where none fits, the one with the most
/// devices says what would help (add_remedies() in answers/fitting.h).
std::vector<Report> predict(const Question& question, Depth depth = Depth::full);
std::vector<Report> predict(const Question& question, Depth depth, bool timeline);

}  // namespace tandem::answers

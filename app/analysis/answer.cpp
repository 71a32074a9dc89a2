// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/answer.h"

#include <algorithm>
#include <chrono>

#include "app/analysis/elasticity.h"
#include "app/analysis/fitting.h"

namespace tandem::app {

Report answer(const Question& question, int64_t devices) {
  const auto start = std::chrono::steady_clock::now();
  Report report = simulate(question.prediction(devices));
  if (report.fits) find_bottleneck(question, report);
  report.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& [path, value] : question.sets) report.inputs.emplace_back("set." + path, value);
  return report;
}

std::vector<Report> answer(const Question& question) {
  std::vector<Report> out;
  for (const int64_t n : question.devices) out.push_back(answer(question, n));
  return out;
}

void check_fits(const Question& question, const std::vector<Report>& reports) {
  int64_t most = 0;
  for (const Report& r : reports) {
    if (r.fits) return;
    most = std::max(most, r.devices);
  }
  if (most > 0) throw InputError(fit_text(question, most));
}

}  // namespace tandem::app

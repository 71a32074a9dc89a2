// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "app/analysis/elasticity.h"
#include "app/analysis/fitting.h"

namespace tandem::app {

namespace {

/// That the rows beside those which a log corrects rest on stock figures.
void note_unmeasured(const Question& q, Report& report) {
  if (!q.measured || report.devices == 1) return;
  std::set<int64_t> counts;
  for (const MeasuredCollective& each : q.measured->all) counts.insert(each.devices);
  for (const char* kind : {"all-reduce", "all-gather", "reduce-scatter"}) {
    if (q.measured->find(kind, report.devices) != nullptr) return;
  }
  report.notes.push_back(fmt::format(
      "collectives were measured on {} devices only: stock figures here, not to be held against those",
      fmt::join(counts, ", ")));
}

}  // namespace

Report answer(const Question& question, int64_t devices) {
  const auto start = std::chrono::steady_clock::now();
  Report report = simulate(question.prediction(devices));
  if (report.fits) find_bottleneck(question, report);
  note_unmeasured(question, report);
  report.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const std::string label = question.system_label(); label != question.system.name())
    report.inputs.emplace_back("system_label", label);
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

// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/aims.h"

#include "sim/plan/placement.h"
#include "sim/simulation.h"

namespace tandem::app {

std::vector<Flag> aim_flags() {
  std::vector<Flag> out = failure_flags();
  const std::vector<Flag> progress = progress_flags();
  out.insert(out.end(), progress.begin(), progress.end());
  return out;
}

Aims read_aims(const Arguments& arguments) {
  return {read_failures(arguments), read_progress_question(arguments)};
}

void add_aims(const Aims& aims, const Question& question, Report& report) {
  if (aims.failures) add_goodput(question, *aims.failures, report);
  if (!aims.target || !report.fits) return;
  const Prediction p = question.prediction(report.devices);
  const auto program = Simulation(p).program(make_cluster(question.system, report.devices));
  add_progress(*aims.target, question.graph, *program, report);
}

}  // namespace tandem::app

// SPDX-License-Identifier: Apache-2.0
#include "answers/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "answers/elasticity.h"
#include "answers/failures.h"
#include "answers/fitting.h"
#include "answers/progress.h"
#include "answers/what_if.h"
#include "sim/bound/placement.h"
#include "sim/simulation.h"

namespace tandem::answers {

namespace {

/// Notes that collectives not corrected by a log rest on stock figures.
void note_unmeasured(const Question& q, Report& report) {
  if (!q.measured || report.setup.devices == 1) return;
  std::set<int64_t> counts;
  for (const MeasuredCollective& each : q.measured->all) counts.insert(each.devices);
  for (const char* kind : {"all-reduce", "all-gather", "reduce-scatter"}) {
    if (q.measured->find(kind, report.setup.devices) != nullptr) return;
  }
  report.notes.push_back(fmt::format(
      "collectives were measured on {} devices only: these are stock figures, not comparable with them",
      fmt::join(counts, ", ")));
}

}  // namespace

namespace {

/// Goodput, and the time to a target.
void add_aims(const Question& q, Report& report) {
  if (q.failures) add_goodput(q, *q.failures, report);
  if (!q.target || !report.fits) return;
  const Request p = q.request(report.setup.devices);
  const auto program = Simulation(p).program(make_cluster(q.system, report.setup.devices));
  add_progress(*q.target, q.graph, *program, report);
}

}  // namespace

Report predict(const Question& q, int64_t devices, Depth depth, bool timeline) {
  const auto start = std::chrono::steady_clock::now();
  Request p = q.request(devices);
  p.timeline = timeline;
  Report report = depth == Depth::rate && q.then.empty() ? simulate_rate(p)
                  : depth <= Depth::fit                  ? simulate_fit(p)
                                                         : simulate(p);
  if (report.fits && depth == Depth::full) find_bottleneck(q, report);
  note_unmeasured(q, report);
  if (const std::string label = q.system_label(); label != q.system.name())
    report.setup.inputs.emplace_back("system_label", label);
  for (const auto& [path, value] : q.sets) report.setup.inputs.emplace_back("set." + path, value);
  if (depth == Depth::full) note_idle_settings(q, report);
  if (depth >= Depth::fit) add_aims(q, report);
  report.setup.question = q.to_json();
  report.evaluation.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

Report predict(const Question& q, int64_t devices, Depth depth) {
  return predict(q, devices, depth, q.timeline);
}

std::vector<Report> predict(const Question& question, Depth depth) {
  return predict(question, depth, question.timeline);
}

std::vector<Report> predict(const Question& question, Depth depth, bool timeline) {
  std::vector<Report> out;
  for (const int64_t n : question.devices) out.push_back(predict(question, n, depth, timeline));
  if (depth == Depth::full) add_remedies(question, out);
  return out;
}

}  // namespace tandem::answers

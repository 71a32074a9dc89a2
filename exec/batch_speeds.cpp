// SPDX-License-Identifier: Apache-2.0
#include "exec/batch_speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/statistics.h"
#include "exec/comm/ranks.h"
#include "exec/execute.h"
#include "schemes/setup/uneven_batches.h"

namespace tandem::exec {

namespace {

constexpr int32_t kTrialSteps = 12, kTrialWarmup = 3;

/// Steps per second of each worker of this process, by the median of its steps' compute ops.
std::vector<double> speeds_here(const ExecutionResult& trial, const Program& program) {
  std::map<uint32_t, std::map<uint32_t, double>> seconds;  // [worker][iteration]
  for (const Span& s : trial.spans) {
    const Op& op = program.roles[s.role].ops[s.op];
    if (op.kind == OpKind::compute && op.lane == Lane::compute)
      seconds[s.instance][s.iteration] += (s.end - s.start).seconds();
  }
  std::vector<double> out;
  for (const auto& [worker, iterations] : seconds) {
    std::vector<double> steady;
    for (const auto& [iteration, of] : iterations) {
      if (iteration >= static_cast<uint32_t>(kTrialWarmup * program.micro_batches)) steady.push_back(of);
    }
    out.push_back(steady.empty() ? 0 : 1 / std::max(1e-9, median(steady)));
  }
  return out;
}

/// One after the other, of all processes.
std::vector<double> of_all_ranks(const std::vector<double>& here) {
  if (!ranks().several()) return here;
  std::string own;
  for (const double speed : here) own += fmt::format("{:.17g} ", speed);
  std::vector<double> out;
  for (const std::string& part : gather_over_ranks(own)) {
    std::istringstream words(part);
    for (double speed = 0; words >> speed;) out.push_back(speed);
  }
  return out;
}

}  // namespace

std::vector<int64_t> batches_by_speed(const Execution& execution) {
  Execution trial = execution;
  trial.job.batches.clear();
  trial.iterations = kTrialSteps;
  trial.warmup = kTrialWarmup;
  trial.target.reset();
  trial.progress = nullptr;
  const Program program = make_program(trial);
  check_takes_uneven(program, execution.job.scheme->name);
  Keep keep;
  keep.spans = true;
  const std::vector<double> speeds = of_all_ranks(speeds_here(execute(trial, keep), program));
  const int64_t devices = execution.cluster.devices;
  const bool known = static_cast<int64_t>(speeds.size()) == devices &&
                     std::all_of(speeds.begin(), speeds.end(), [](double s) { return s > 0; });
  if (!known)  // it was stopped
    return std::vector<int64_t>(static_cast<std::size_t>(devices), execution.job.batch);
  return in_proportion(speeds, checked_mul(execution.job.batch, devices, "the samples of a step"));
}

}  // namespace tandem::exec

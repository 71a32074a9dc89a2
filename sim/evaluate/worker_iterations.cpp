// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/worker_iterations.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::sim {

WorkerIterations::WorkerIterations(const BoundProgram& plan, const EventRoles& roles,
                                   const EvaluateOptions& options, Recorder& recorder, Trace& trace)
    : plan_(plan), options_(options), recorder_(recorder), trace_(trace), ended_(roles.workers(), 0) {
  const auto each = static_cast<uint32_t>(std::max(options.iterations, 0));
  const bool free = each > 0 && free_running(*plan.program, plan.measured_roles);
  limit_.assign(roles.workers(), free ? kAll : each);
  if (!free) return;
  groups_.emplace(roles[0].role->mesh, meeting_axes(*plan.program));
  begun_.assign(groups_->count(), 0);
  open_ = int64_t{each} * groups_->count();
}

bool WorkerIterations::begin(uint32_t worker, uint32_t iteration) {
  if (open_ == 0) return false;
  uint32_t& begun = begun_[groups_->of(worker)];
  if (iteration < begun) return false;
  const auto step = static_cast<uint32_t>(plan_.program->micro_batches);
  begun += step;
  open_ -= step;
  if (open_ > 0 || prolong()) return false;
  for (uint32_t i = 0; i < limit_.size(); ++i) limit_[i] = begun_[groups_->of(i)];
  return true;
}

/// All iterations have begun. Where those ended do not tell a steady rate, they become the run-in, and as
/// many more are made as may be.
bool WorkerIterations::prolong() {
  const int32_t more = options_.most_iterations - options_.iterations;
  const int64_t ended = trace_.worker_iterations / static_cast<int64_t>(ended_.size());
  if (more <= 0 || steady(options_.run_in, ended)) return false;
  options_.iterations += more;
  options_.run_in = trace_.run_in = static_cast<int32_t>(ended);
  open_ += int64_t{more} * groups_->count();
  trace_.iteration_end.resize(static_cast<std::size_t>(options_.iterations));
  trace_.staleness = {};
  for (Histogram& of_worker : trace_.staleness_by_worker) of_worker = {};
  trace_.dropped = 0;
  recorder_.forget_time();
  return true;
}

/// The iterations from `first` up to `ended` are equal, and not longer or shorter towards their end.
bool WorkerIterations::steady(int64_t first, int64_t ended) const {
  constexpr double kSpread = 0.05, kDrift = 0.01;  // where the network decides, they spread by 20 % and more
  const int64_t half = (ended - first) / 2;
  if (first == 0 || half <= 0) return true;
  std::vector<double> length;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(ended); ++i)
    length.push_back((trace_.iteration_end[i] - trace_.iteration_end[i - 1]).seconds());
  const auto [least, most] = std::minmax_element(length.begin(), length.end());
  const double early = std::accumulate(length.begin(), length.begin() + half, 0.0),
               late = std::accumulate(length.end() - half, length.end(), 0.0);
  return *most <= *least * (1 + kSpread) && std::abs(early / late - 1) <= kDrift;
}

}  // namespace tandem::sim

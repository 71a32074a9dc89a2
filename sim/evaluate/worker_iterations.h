// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many iterations the workers make in the event evaluator (semantics.md 1.7).
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/bound/groups.h"
#include "sim/evaluate/event_roles.h"
#include "sim/evaluate/recorder.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// Each the same number, or in a free-running program as many as there is work left for; those of a group
/// meet in collectives. For one thread at a time.
class WorkerIterations {
 public:
  /// All arguments outlive it.
  WorkerIterations(const BoundProgram& plan, const EventRoles& roles, const EvaluateOptions& options,
                   Recorder& recorder, Trace& trace);

  /// At most, on average.
  int32_t asked() const { return options_.iterations; }
  /// Those of the instance; kAll: not known yet.
  static constexpr uint32_t kAll = UINT32_MAX;
  uint32_t limit(uint32_t r, uint32_t instance) const {
    if (!plan_.measured(r)) return kAll;
    return r == 0 ? limit_[instance] : static_cast<uint32_t>(asked());
  }
  /// The worker's compute lane gets to `iteration`. Whether that was the last iteration that was open, so
  /// that all limits are known now.
  bool begin(uint32_t worker, uint32_t iteration);
  /// All lanes of the worker have ended `iterations`.
  void ended(uint32_t worker, uint32_t iterations, int64_t now) {
    while (ended_[worker] < iterations) recorder_.iteration(worker, ended_[worker]++, now);
  }
  /// The workers have made the iterations before those that count, on average.
  bool has_run_in() const {
    return trace_.worker_iterations >= int64_t{options_.run_in} * static_cast<int64_t>(ended_.size());
  }

 private:
  bool prolong();
  bool steady(int64_t first, int64_t ended) const;

  const BoundProgram& plan_;
  EvaluateOptions options_;
  Recorder& recorder_;
  Trace& trace_;
  std::optional<Groups> groups_;  ///< of a free-running program
  std::vector<uint32_t> begun_;   ///< [group]
  int64_t open_ = 0;              ///< iterations that no group has begun yet
  std::vector<uint32_t> limit_;   ///< [worker]
  std::vector<uint32_t> ended_;   ///< [worker]
};

}  // namespace tandem::sim

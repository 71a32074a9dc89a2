// SPDX-License-Identifier: Apache-2.0
#pragma once
// The processors of the lanes of a run's workers. Internal to exec.
#include <cstdint>
#include <string>
#include <vector>

#include "exec/device/cores.h"
#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Made by one thread; then any may ask. Workers of several processes that may use the same processors of a
/// machine divide them.
class CoreBinding {
 public:
  /// The plan outlives it. All of several processes make one. Throws as assign_cores().
  explicit CoreBinding(const RunPlan& plan);
  /// Binds the calling thread, of one of this process's workers, to the processors of its lane.
  void bind(uint32_t instance, Lane lane) const;
  /// The processors that only communicate, of all workers of this process.
  std::vector<int> communicating() const;
  /// Options that mean less here than elsewhere, in words.
  std::vector<std::string> remarks() const;

 private:
  const RunPlan& plan_;
  std::vector<WorkerCores> cores_;  ///< [worker of this process]; empty: nothing is bound
  std::size_t numa_nodes_ = 0;      ///< whose processors workers have
  int64_t processors_ = 0;          ///< that they have
  int64_t threads_ = 0;             ///< that compute there, of all processes
};

}  // namespace tandem::exec

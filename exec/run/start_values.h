// SPDX-License-Identifier: Apache-2.0
#pragma once
// With what the workers of a run begin. Internal to exec.
#include <vector>

#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Flat vectors of the whole model.
struct StartValues {
  std::vector<float> parameters;
  std::vector<float> optimizer_state;  ///< laid out as RunPlan::optimizer_state()
  std::vector<float> averaging;        ///< averaging_vectors() of a checkpoint; empty: none yet
  std::vector<float> frozen;           ///< the frozen weights
};

/// Drawn from the seed, the same for every worker and thread count, or those of the plan's checkpoint. Throws
/// InputError where that is of another model or scheme.
StartValues start_values(const RunPlan& plan);

}  // namespace tandem::exec

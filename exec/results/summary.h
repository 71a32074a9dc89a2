// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what the workers of an execution leave behind to its Report. Internal to exec.
#include <memory>
#include <vector>

#include "exec/workers/worker.h"

namespace tandem::exec {

/// By the definitions of the simulator (sim/evaluate/evaluate.h). Among several processes all of them call
/// it, and each has the figures of all.
ExecutionResult summarise(const Run& run, const std::vector<std::unique_ptr<Worker>>& workers);

}  // namespace tandem::exec

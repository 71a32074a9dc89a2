// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the records of an execution's workers into its Report. Internal to exec.
#include <memory>
#include <vector>

#include "exec/run/meter.h"
#include "exec/workers/worker.h"

namespace tandem::exec {

/// By the definitions of the simulator (sim/evaluate/evaluate.h). All of several processes call it, and each
/// gets the figures of all. `meter`: stopped; null without one.
ExecutionResult summarise(const Run& run, const std::vector<std::unique_ptr<Worker>>& workers,
                          const Meter* meter);

}  // namespace tandem::exec

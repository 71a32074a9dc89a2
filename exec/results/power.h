// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an execution's devices drew in the steps that its rate counts. Internal to exec.
#include <memory>

#include "exec/request/execution.h"
#include "exec/run/meter.h"
#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Of the devices of this process's workers, from now on. Null where none is wanted, or where the backend has
/// no gauges.
std::unique_ptr<Meter> meter_of(const RunPlan& plan);

/// Sets TimeUse::power by the readings while the steps of ExecutionResult::iteration_seconds ran. Each
/// device's mean watts times the mean seconds of a step are its joules a step. Of GPUs, and where
/// TANDEM_POWERCAP is set, a note says why there is no figure. All of several processes call it, and each
/// gets the figures of all; a device that several of them use counts once.
void add_power(const RunPlan& plan, const Meter& meter, const std::vector<TimeSpan>& ran,
               ExecutionResult& out);

}  // namespace tandem::exec

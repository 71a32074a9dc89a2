// SPDX-License-Identifier: Apache-2.0
#pragma once
// One entry: model, scheme, devices and backend in, Report out: the counterpart of sim/simulate.h. One
// execution at a time in a process.
#include <vector>

#include "exec/request/execution.h"

namespace tandem::exec {

/// Share of `data` that the model classifies rightly with the parameters, frozen weights and buffers of
/// `trained`.
double accuracy(const Graph& graph, const Backend& backend, const Dataset& data,
                const ExecutionResult& trained);

/// Throws the InputError of an execution whose scheme needs more processors than there are, before it runs.
void check_cores(const Execution& execution);

/// Throws InputError (what cannot be executed), DeviceError (a worker, link or rank failed).
ExecutionResult execute(const Execution& execution, const Keep& keep = {});

}  // namespace tandem::exec

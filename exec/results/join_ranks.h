// SPDX-License-Identifier: Apache-2.0
#pragma once
// Joins the results of several MPI processes of one run. Internal to exec.
#include <vector>

#include "exec/run/run.h"

namespace tandem::exec {

/// The part of what it trained that only this worker holds, in its own flat vector: everything, or its shares
/// if updates are spread over replicas.
std::vector<Slice> held_by(const RunPlan& plan, uint32_t instance);

/// Rates add up, losses are averaged, parameters and state come from whoever updated them. Called by all
/// processes, each with its own result; afterwards all have equal results except for times that only one
/// measured.
void join_ranks(const Run& run, ExecutionResult& out);

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What several processes under MPI have of one run, put together. Internal to exec.
#include <vector>

#include "exec/run/run.h"

namespace tandem::exec {

/// What a worker alone holds of what it trained, in its own flat vector: everything, or where updates are
/// spread over replicas its shares.
std::vector<Slice> held_by(const Run& run, uint32_t instance);

/// Rates add up, losses are means, parameters and state those of whoever updated them. By all processes, each
/// with its own result, and afterwards alike but for what only one of them timed.
void join_ranks(const Run& run, ExecutionResult& out);

}  // namespace tandem::exec

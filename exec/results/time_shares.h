// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where an executed worker's time went. Internal to exec.
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/workers/worker.h"

namespace tandem::exec {

/// Fills Report::time_share and waiting_for with what the first worker here did in the iterations from `warm`
/// on, and the bottleneck by the largest share. While its compute lane stands still, the other lanes tell
/// why: bytes are on their way, else gradients are merged, else it waits for other workers (of a collective
/// until the last has come; for a store in shared memory until the gate opens), else for input. `begin`: when
/// the run began; `ends`: of its iterations, ns.
void add_measured_shares(Report& report, const Run& run, const std::vector<std::unique_ptr<Worker>>& workers,
                         std::size_t warm, int64_t begin, const std::vector<int64_t>& ends);

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How an executed worker spent its time. Internal to exec.
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/workers/worker.h"

namespace tandem::exec {

/// Fills share and waiting_for of Report::time from the iterations of the first local worker from `warm` on,
/// and the bottleneck by the largest share. While its compute lane is idle, the other lanes give the reason:
/// bytes in transit, else merging of gradients, else waiting for other workers (in a collective until the
/// last has come; for a store in shared memory until the gate opens), else input. `begin`: start of the run;
/// `ends`: of its iterations, ns.
void add_measured_shares(Report& report, const Run& run, const std::vector<std::unique_ptr<Worker>>& workers,
                         std::size_t warm, int64_t begin, const std::vector<int64_t>& ends);

}  // namespace tandem::exec

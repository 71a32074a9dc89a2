// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of an execution, known before it begins, and whether this machine has as much: the sum of what
// workers' handlers state.
#include "exec/layout/memory.h"
#include "exec/layout/stages.h"

namespace tandem::exec {

/// What a worker allocates on its device, to the byte: everything except what libraries keep for their
/// kernels. Activations are the network's arena; gradients include the sums of micro-batches; buffers are the
/// input's; workspace is for collectives other than parameters and gradients, and for the gather buffers of
/// temporarily whole buckets (Held). Capacity is not set.
MemoryUse worker_memory(const Execution& execution, const Program& program, const Stages& stages,
                        uint32_t worker);

/// Host memory of `workers` of this process, from `first` on, when they begin: their own on devices that
/// compute there, start values, servers, and results (Keep). Without what libraries keep for their kernels,
/// and without the record of every op, which grows as they run.
Bytes host_memory(const Execution& execution, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers);

/// Throws InputError with the sum in words, and how many workers fit, if host_memory() is exceeded, or a
/// device's device_memory() by worker_memory().
void check_memory(const Execution& execution, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers);
/// The same before anything is made, for the number of workers that this process will have.
void check_memory(const Execution& execution, const Keep& keep);

}  // namespace tandem::exec

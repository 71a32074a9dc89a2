// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an execution holds in memory, known before it begins, and whether this machine has as much: the sum of
// what workers' handlers say they need.
#include "exec/layout/memory.h"
#include "exec/layout/stages.h"

namespace tandem::exec {

/// What a worker allocates on its device, to the byte: all but what a library keeps for its own kernels.
/// Activations are the network's arena, gradients also the sums of micro-batches, buffers the input's,
/// workspace what collectives move beside parameters and gradients, and the gather buffers of what is whole
/// for a while only (Held). Capacity is not set.
MemoryUse worker_memory(const Execution& execution, const Program& program, const Stages& stages,
                        uint32_t worker);

/// What `workers` of this process, from `first` on, together take of the host's memory when they begin: their
/// own on devices that compute there, start values, servers, and what is handed back (Keep). Not what
/// libraries keep for their kernels, nor the record of every op, which grows as they run.
Bytes host_memory(const Execution& execution, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers);

/// Throws InputError with the sum in words, and how many workers fit, when host_memory() is more than that,
/// or worker_memory() more than device_memory().
void check_memory(const Execution& execution, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers);
/// The same before anything is made, for as many workers as this process will have.
void check_memory(const Execution& execution, const Keep& keep);

}  // namespace tandem::exec

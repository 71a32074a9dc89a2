// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an execution holds in memory, known before it begins, and whether this machine has as much.
#include <cstdint>
#include <optional>
#include <string>

#include "exec/comm/store.h"
#include "exec/layout/stages.h"
#include "exec/lower/execution_graph.h"
#include "exec/request/execution.h"

namespace tandem::exec {

/// Batches in memory at once: one is loaded when the forward pass of two iterations before has begun
/// (Training::forward), whose backward pass still reads its own.
inline constexpr int64_t kInputBatches = 3;

/// Words of 4 bytes that all members' shares take, as many for each, where a collective gathers parameters in
/// numbers of 2 bytes; 0 for every other op.
int64_t narrowed_words(const Program& program, const Op& op);
/// Words of the largest piece of parameters that comes up from the host in numbers of 2 bytes.
int64_t reloaded_words(const Program& program, const Role& role, Precision precision);
/// Words where gradients arrive of a weight of which another stage has a copy.
int64_t tied_words(const Program& program, const Role& role);

/// Flat vectors that workers and stores exchange: parameters, and where the optimiser's state is averaged in
/// the hosts' memory as many as it has behind them.
int64_t vectors_of_stores(const Program& program, const Optimizer& optimizer);

/// Does the role have that stage of input?
bool has_stage(const Program& program, const Role& role, CopyKind stage);
/// Of batches of stored pictures that are on the host at once, encoded and decoded.
Bytes loaded_bytes(const Execution& execution, const Program& program, const Stages& stages, uint32_t worker);

/// Words of gradients that partners made of their parts of the sequence: a role's
/// Payload::sequence_gradients.
int64_t sequence_words(const Role& role);
/// Where these lie in the flat vector, in its order.
std::vector<Slice> in_parts(const ExecutionGraph& lowered);

/// Words that a worker has in its host's memory, of what is offloaded.
int64_t offloaded_words(const Execution& execution, const Program& program, const Stages& stages,
                        uint32_t worker);

/// What a worker allocates on its device, to the byte: all but what a library keeps for its own kernels.
/// Activations are the network's arena, gradients also the sums of micro-batches, buffers the input's,
/// workspace what collectives move beside parameters and gradients, and the rooms of what is whole for a
/// while only (Held). Capacity is not set.
MemoryUse worker_memory(const Execution& execution, const Program& program, const Stages& stages,
                        uint32_t worker);

/// What `workers` of this process, from `first` on, together take of the host's memory when they begin: their
/// own on devices that compute there, start values, servers, and what is handed back (Keep). Not what
/// libraries keep for their kernels, nor the record of every op, which grows as they run.
Bytes host_memory(const Execution& execution, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers);

/// The least of what the system says is available (MemAvailable of /proc/meminfo), what the control groups of
/// this process still allow, and what its address space may grow by (ulimit -v).
struct AvailableMemory {
  Bytes bytes;
  std::string limit;  ///< "MemAvailable", "the control group's limit", "ulimit -v"
};
/// `root`: in front of /proc and /sys, for tests.
AvailableMemory available_memory(const std::string& root = "");

/// Of the device of `worker`, where devices have memory of their own: how much of it is there for each of the
/// workers of this process that share it. Nothing where their memory is the host's.
std::optional<Bytes> device_memory(const Execution& execution, uint32_t worker, uint32_t workers);
/// Of this machine, all of it.
Bytes host_capacity();
/// The first one's device_memory(), or its share of the host's.
Bytes capacity(const Execution& execution, uint32_t workers);
/// Throws InputError with the sum in words, and how many workers fit, when host_memory() is more than that,
/// or worker_memory() more than device_memory().
void check_memory(const Execution& execution, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers);
/// The same before anything is made, for as many workers as this process will have.
void check_memory(const Execution& execution, const Keep& keep);

}  // namespace tandem::exec

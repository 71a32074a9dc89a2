// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much single ops of an execution need, and how much memory this machine has.
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

}  // namespace tandem::exec

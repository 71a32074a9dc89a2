// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that single ops of an execution need, and the memory of this machine.
#include <cstdint>
#include <optional>
#include <string>

#include "exec/comm/store.h"
#include "exec/layout/stages.h"
#include "exec/lower/execution_graph.h"
#include "exec/request/execution.h"

namespace tandem::exec {

/// Batches in memory at once: one is loaded when the forward pass of two iterations earlier has begun
/// (Training::forward), whose backward pass still reads its own.
inline constexpr int64_t kInputBatches = 3;

/// Words of 4 bytes of all members' shares, padded to equal size, if a collective gathers parameters in 2
/// bytes; 0 for every other op.
int64_t narrowed_words(const Program& program, const Op& op);
/// Words of the largest piece of parameters that is copied up from the host in 2 bytes.
int64_t reloaded_words(const Program& program, const Role& role, Precision precision);
/// Words that receive gradients of a weight that another stage has a copy of.
int64_t tied_words(const Program& program, const Role& role);

/// Flat vectors that workers and stores exchange: parameters, plus those of the optimiser's state if it is
/// averaged in the hosts' memory.
int64_t vectors_of_stores(const Program& program, const Optimizer& optimizer);

/// Whether the role has that stage of input.
bool has_stage(const Program& program, const Role& role, CopyKind stage);
/// Of the batches of stored images that are on the host at once, encoded and decoded.
Bytes loaded_bytes(const Execution& execution, const Program& program, const Stages& stages, uint32_t worker);

/// Words of gradients that partners computed from their parts of the sequence: a role's
/// Payload::sequence_gradients.
int64_t sequence_words(const Role& role);
/// Their places in the flat vector, in its order.
std::vector<Slice> in_parts(const ExecutionGraph& lowered);

/// The least of the available memory (MemAvailable of /proc/meminfo), what this process's control groups
/// still allow, and what its address space may grow by (ulimit -v).
struct AvailableMemory {
  Bytes bytes;
  std::string limit;  ///< "MemAvailable", "the control group's limit", "ulimit -v"
};
/// `root`: prefix of /proc and /sys, for tests.
AvailableMemory available_memory(const std::string& root = "");

/// For the device of `worker`, if devices have their own memory: its available memory divided by the workers
/// of this process that share it. Nothing if their memory is the host's.
std::optional<Bytes> device_memory(const Execution& execution, uint32_t worker, uint32_t workers);
/// All memory of this machine.
Bytes host_capacity();
/// device_memory() of the first worker, or its share of the host's.
Bytes capacity(const Execution& execution, uint32_t workers);

}  // namespace tandem::exec

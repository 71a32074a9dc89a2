// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a collective takes on a measured machine: the steps that the executor runs (executed_algorithm), each
// priced by what it moves.
#include "schemes/program/program.h"
#include "sim/cost/machine.h"

namespace tandem::sim {

struct MachineCollective {
  double seconds = 0;    ///< without what waking threads costs, and without the links' latency
  double cpu = 0;        ///< processor seconds of a rank for messages between nodes
  int64_t messages = 0;  ///< one after another between nodes: so often does a link's latency count
};

/// `bytes`: of the whole buffer. `nodes`: [rank], equal where ranks share memory; those of a node stand next
/// to each other. `rate`: bytes/s of a node's port, 0 = not limited.
///
/// In one memory: as long as the measured all-reduce of as many bytes as move as much, by memory_passes();
/// among devices with their own memory by the bytes that a rank sends, in rings where the library chooses.
/// Between nodes: each step as the message that the busiest node sends in it; a step that stays on the nodes
/// as in one memory. O(moves of the schedule).
MachineCollective machine_collective(const MachineProfile& machine, const Collective& collective, Bytes bytes,
                                     const std::vector<int64_t>& nodes, double rate);

}  // namespace tandem::sim

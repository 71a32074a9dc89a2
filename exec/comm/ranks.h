// SPDX-License-Identifier: Apache-2.0
#pragma once
// Processes on several machines that execute one Program together, started by mpirun: each is one node.
//
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/comm/sync.h"
#include "exec/comm/transport.h"

namespace tandem::exec {

/// This process among those that mpirun started.
struct Ranks {
  int64_t rank = 0, size = 1;
  int64_t local = 0;  ///< among the processes of this machine
  bool several() const { return size > 1; }
};

/// The first call joins the others (MPI_Init_thread). One process when not started by mpirun. Throws
/// InputError when started by it in a build without MPI.
const Ranks& ranks();
/// Sums over all processes, in place. Without several ranks nothing happens, here and below.
void sum_over_ranks(std::span<double> values);
/// What every process gives, by rank. Called by all, in the same order.
std::vector<std::string> gather_over_ranks(const std::string& own);
/// In rank 0: answers what threads of other ranks ask, one after another, until `over`.
void answer_ranks(const std::function<std::string(const std::string& asked)>& answer,
                  const std::function<bool()>& over);
/// In another rank: asks rank 0 and waits for its answer. Threads that ask at the same time have numbers of
/// their own, below 2^15. Throws DeviceError after `patience` without an answer.
std::string ask_rank_0(int thread, const std::string& asked, std::chrono::seconds patience);
/// Waits, without using the processor, until all have come here.
void meet_ranks();
/// Ends all processes when one fails; does not return when there are several.
void abort_ranks(int exit_code);
/// Messages between the nodes; node = rank.
std::unique_ptr<exec::Transport> mpi_transport(Abort& abort);

}  // namespace tandem::exec

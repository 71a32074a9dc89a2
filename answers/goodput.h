// SPDX-License-Identifier: Apache-2.0
#pragma once
// What failures leave of a job's time, in closed form and by events. Plain numbers in, plain numbers out: it
// knows nothing of models and machines. All times in seconds.
#include <cstdint>
#include <vector>

#include "base/rooms.h"

namespace tandem::answers {

/// A job on nodes that fail independently, each after an exponentially distributed time of work; idle nodes
/// do not fail. A failure loses the work since the last checkpoint.
struct FailingJob {
  int64_t nodes = 1;
  double node_mtbf = 0;   ///< mean time between failures of a working node, its devices included
  double interval = 0;    ///< work between the end of one checkpoint and the start of the next
  double checkpoint = 0;  ///< time to write one, while the job waits
  double restart = 0;     ///< from a failure, or from when enough nodes are up, until work resumes
  double repair = 0;      ///< mean of a failed node's exponentially distributed downtime; 0: none
  int64_t spares = 0;     ///< extra nodes that replace failed ones
  /// [k]: rate with k nodes fewer, relative to all; [0] is 1. With more down the job waits. A repaired node
  /// joins at the next checkpoint, by a restart.
  std::vector<double> rates = {1};
  /// Rate with `missing` nodes fewer.
  double mtbf(int64_t missing = 0) const { return node_mtbf / static_cast<double>(nodes - missing); }
};

/// Shares of the time; they add up to 1.
struct FailureTimes {
  double useful = 0;       ///< the goodput: work kept, in units of the full rate
  double checkpoints = 0;  ///< writing them
  double repeated = 0;     ///< work lost to failures
  double restarts = 0;
  double waiting = 0;      ///< for a node
  double fewer_nodes = 0;  ///< loss against the full rate while nodes are down
};

/// The interval between checkpoints that loses least: Daly, "A higher order estimate of the optimum
/// checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), eq. 37; its first
/// term is Young's (Communications of the ACM 17, 1974).
double optimal_interval(double checkpoint, double mtbf);

/// Closed form. With one rate and no repair it is Daly's complete model (2006, eq. 20), which is exact and
/// lets checkpoints and restarts fail too. With repairs the number of nodes down is a birth-death process,
/// and each of its states follows the complete model at its own failure rate. That is exact while the job has
/// all its nodes or waits; restarts in which a node comes back lose the mean time.
FailureTimes expected_times(const FailingJob& job);

/// Goodput by simulation of `failures` failures in sequence, drawn from `seed`. O(failures).
double simulated_goodput(const FailingJob& job, uint64_t seed, int64_t failures = 300'000);

}  // namespace tandem::answers

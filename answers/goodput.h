// SPDX-License-Identifier: Apache-2.0
#pragma once
// What failures leave of a job's time, in closed form and by events. Plain numbers in, plain numbers out: it
// knows nothing of models and machines. All times in seconds.
#include <cstdint>
#include <vector>

#include "base/rooms.h"

namespace tandem::answers {

/// A job on nodes that fail independently of each other, each after an exponentially distributed time of
/// work; a node that stands still does not fail. A failure throws away what was done since the last
/// checkpoint.
struct FailingJob {
  int64_t nodes = 1;
  double node_mtbf = 0;   ///< mean time between failures of a working node, its devices included
  double interval = 0;    ///< work between the end of a checkpoint and the begin of the next
  double checkpoint = 0;  ///< in which the job stands still while it writes one
  double restart = 0;     ///< from a failure, or from when enough nodes are there, until it works again
  double repair = 0;      ///< mean of the exponentially distributed time that a failed node is away; 0: none
  int64_t spares = 0;     ///< nodes beside `nodes` that take the place of failed ones
  /// [k]: rate with k nodes less than `nodes`, over the full one; [0] is 1. With more of them away the job
  /// waits. A node that comes back joins at the next checkpoint, by a restart.
  std::vector<double> rates = {1};
  /// Of the job with `missing` nodes less.
  double mtbf(int64_t missing = 0) const { return node_mtbf / static_cast<double>(nodes - missing); }
};

/// Shares of the time, which add up to 1.
struct FailureTimes {
  double useful = 0;       ///< the goodput: work that is kept, in units of the full rate
  double checkpoints = 0;  ///< writing them
  double repeated = 0;     ///< work that a failure threw away
  double restarts = 0;
  double waiting = 0;      ///< for a node
  double fewer_nodes = 0;  ///< what is lost to the full rate while some are away
};

/// The work between two checkpoints that loses least. Daly, "A higher order estimate of the optimum
/// checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), eq. 37; its first
/// term is Young's (Communications of the ACM 17, 1974).
double optimal_interval(double checkpoint, double mtbf);

/// Closed form. With one rate and no repair it is Daly's complete model (2006, eq. 20), which is exact: a
/// failure may also strike a checkpoint or a restart. With repairs the number of nodes that are away is a
/// birth-death process, and each of its states does what the complete model says at its own rate of
/// failures. That is exact while the job has all its nodes or waits; for restarts in which a node comes back
/// it takes the mean time lost.
FailureTimes expected_times(const FailingJob& job);

/// Goodput by events: so many failures, one after the other, drawn from `seed`. O(failures).
double simulated_goodput(const FailingJob& job, uint64_t seed, int64_t failures = 300'000);

}  // namespace tandem::answers

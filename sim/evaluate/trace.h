// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an evaluation leaves: the same for every evaluator. Plain values; a Trace belongs to its
// caller.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "schemes/report/report.h"
#include "sim/bound/bound_program.h"

namespace tandem::sim {

struct EvaluateOptions {
  int32_t iterations = 20;      ///< of each worker; of a free-running program their mean (semantics.md 1.7)
  int32_t most_iterations = 0;  ///< at most, of a free-running program whose rate is not steady yet
  int32_t run_in = 0;           ///< those of them that every worker has made on average before staleness
                                ///< and dropped gradients are counted, of a free-running program time, too
  int32_t period = 1;           ///< after how many iterations a worker's ops repeat (Trace::worker_rate)
  int32_t kept_iterations = 4;  ///< spans kept for the timeline: the last that many iterations ...
  int32_t kept_instances = 8;   ///< ... of the first that many instances of each role
  bool contention = true;       ///< false: of a static program no transfer slows another, whatever they share
  bool fingerprint = true;      ///< fill Trace::fingerprint: two thirds of a sweep over many rows
};

/// What a worker's compute lane can stand still for; the time shares of a Report.
enum class Wait : uint8_t {
  launch,         ///< the host: the op had not been issued yet
  communication,  ///< bytes on their way, from when all that take part are there
  waiting,        ///< other workers: the last member of a collective, a peer, whoever opens a gate
  input,
  server,  ///< a server's processor: from a gradient's arrival until its reply, gates apart; or the host's
           ///< own, at the update of what is offloaded
  bubble,  ///< another stage of a pipeline had not sent what this one works on next
  idle,    ///< none of these
};
inline constexpr int kWaits = 7;

/// Kinds of communication: those of collectives, then messages to a store, from it, between peers, copies;
/// then, of a model split over a grid, those of collectives between the devices that share layers, and
/// between replicas.
inline constexpr int kMovePush = kCollKinds, kMovePull = kCollKinds + 1, kMovePeer = kCollKinds + 2,
                     kMoveCopy = kCollKinds + 3, kMoveStage = kCollKinds + 4, kMoveTensor = kCollKinds + 5,
                     kMoveData = kMoveTensor + kCollKinds + 1, kMoves = kMoveData + kCollKinds + 1;
std::string move_name(int move);

/// What an evaluation leaves. Memory: O(instances + iterations + links), never their product.
struct Trace {
  std::string evaluator;  ///< "events", "sweep", "folded"
  std::string reason;     ///< why this one
  /// [iteration]: when the last worker ended its last op of it. Of a free-running program [k]: when all
  /// together had ended k + 1 iterations for each worker, up to when the first of them has none left.
  std::vector<Time> iteration_end;
  int64_t worker_iterations = 0;  ///< completed by all workers together
  int32_t run_in = 0;             ///< iterations before a rate that was not steady yet asked for more
  /// What is accounted for, and what tells the rate.
  struct Timed {
    int32_t from = 0;  ///< iteration of worker 0 from which on its time is accounted for
    int32_t to = 0;    ///< and before which; 0: to the end
    /// Iterations/s of all workers together, each counted over whole periods of its own after the run-in,
    /// while others still run. Of a free-running program whose period is more than one iteration, else 0.
    double worker_rate = 0;
  } timed;
  double timed_iterations() const {
    return (timed.to > 0 ? timed.to : static_cast<double>(iteration_end.size())) - timed.from;
  }
  Time makespan;  ///< end of the last op
  /// Of worker 0, and where stages divide the model of the first instance of each, added up: busy time per
  /// lane. busy[compute] counts compute and apply ops only, so that busy[compute] and the sum of `exposed`
  /// are the ends of their last ops.
  Time busy[kLanes];
  /// Of the same: time without compute, along the chain of ops that its next compute op waited for.
  Time exposed[kWaits];
  Time filling;                      ///< of exposed[input]: the first batch's, before all compute
  Time moved[kMoves];                ///< exposed[communication] by kind
  std::map<uint32_t, Time> awaited;  ///< exposed[waiting] by worker, or by device of a grid
  Time exposed_to(Wait wait) const { return exposed[static_cast<int>(wait)]; }
  /// One sample per gradient kept and shard: version at the end of its apply less the version of the
  /// parameters it was computed from. Of those applied after the run-in.
  Histogram staleness;
  std::vector<Histogram> staleness_by_worker;  ///< first 64 workers
  std::vector<double> link_bytes;              ///< [link] payload x weight carried
  int64_t versions = 0;                        ///< summed over shards and keys
  int64_t dropped = 0;                         ///< gradients dropped as late, after the run-in
  /// Of the gradients that reached a store, how many were merged.
  double kept_share() const {
    const auto kept = static_cast<double>(staleness.count());
    return dropped == 0 ? 1 : kept / (kept + static_cast<double>(dropped));
  }
  int64_t events = 0;  ///< op completions evaluated
  std::vector<Span> spans;
  uint64_t fingerprint = 0;  ///< order-independent hash of all (role, instance, iteration, op, start, end)
                             ///< where asked for
};

}  // namespace tandem::sim

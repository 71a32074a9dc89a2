#pragma once
// The evaluators: same Plan in, same Trace out. `events` is the reference; `sweep` and `folded` are
// optimisations proven equal by tests. Floor 3.
#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "schemes/report.h"
#include "sim/plan.h"

namespace tandem {

struct EvaluateOptions {
  int32_t iterations = 20;
  int32_t kept_iterations = 4;   ///< spans kept for the timeline: the last so many iterations ...
  int32_t kept_instances = 8;    ///< ... of the first so many instances of each role
};

/// What an evaluation leaves behind. Memory: O(instances + iterations + links), never their product.
struct Trace {
  std::string evaluator;                 ///< "events", "sweep", "folded"
  std::string reason;                    ///< why this one
  std::vector<Time> iteration_end;       ///< [iteration]: when the last worker ended its last op of it
  /// [iteration]: when worker 0 started it; time_share and the timeline are read from worker 0.
  std::vector<Time> worker_updates;      ///< async: end of every worker-iteration is counted in `worker_iterations`
  int64_t worker_iterations = 0;         ///< completed by all workers together
  Time makespan;                         ///< end of the last op
  /// Busy time of role 0 instance 0 per lane, and of compute-idle time by what it waited for.
  Time busy[kLanes];
  Time exposed_comm, exposed_input, idle;
  Histogram staleness;
  std::vector<Histogram> staleness_by_worker;  ///< first 64 workers
  std::vector<double> link_bytes;        ///< [link] payload x weight carried
  int64_t versions = 0, dropped = 0;
  int64_t events = 0;                    ///< op completions evaluated
  std::vector<Span> spans;
  uint64_t fingerprint = 0;              ///< order-independent hash of all (role, instance, iteration, op, start, end)
};

Trace run_events(const Plan& plan, const EvaluateOptions& options);
/// Requires is_static(program) and no two transfers of different groups or lanes that share a resource at
/// overlapping times; contention() tells.
Trace run_sweep(const Plan& plan, const EvaluateOptions& options);
/// "" when the sweep may run the plan, else the reason why not, in words ("copy lane and comm lane share ...").
std::string contention(const Plan& plan);
/// Sweep where allowed (folded when nothing differs between instances), else events; says why in Trace::reason.
Trace evaluate(const Plan& plan, const EvaluateOptions& options);

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/evaluate/contention.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/sweep.h"
#include "sim/evaluate/sweep_roles.h"
#include "sim/network/queues.h"

namespace tandem::sim {

namespace {

/// What the binder resolved beforehand, no evaluator can see contend.
std::string resolved(const BoundProgram& plan) {
  const bool any = std::any_of(plan.transfers.begin(), plan.transfers.end(),
                               [](const Transfer& t) { return !t.resolved.empty(); });
  return any ? "; so many instances divide the links that they share in advance, and their copies and "
               "collectives are taken not to slow each other"
             : "";
}

/// Of a split model whose devices differ by one factor an iteration each, so large that a row for each of
/// them would take seconds: each stage is then taken to be as slow as its slowest device. It is, where all of
/// them meet.
bool folds_noise(const BoundProgram& plan, const EvaluateOptions& options) {
  constexpr int64_t kMostExecutions = 10'000'000;
  const Disturbance& d = plan.disturbance;
  return !plan.program->grid.axes.empty() && !d.per_op() && d.network_sigma == 0 &&
         executions(*plan.program) * options.iterations > kMostExecutions &&
         std::all_of(plan.roles.begin(), plan.roles.end(),
                     [](const RoleCosts& costs) { return costs.class_of.empty(); });
}

Trace with_fastest(const BoundProgram& plan, const EvaluateOptions& options) {
  if (plan.measured_roles > 0) {
    Trace trace = run_events(plan, options);
    trace.reason = "several jobs share the machine";
    return trace;
  }
  if (!is_static(*plan.program)) {
    Trace trace = run_events(plan, options);
    trace.reason = "the order in which messages arrive decides what happens";
    if (serves_in_turn(*plan.program))
      trace.reason += fmt::format(
          "; with more than {} pairs of worker and shard, links serve transfers one after another, "
          "which is optimistic where they are the bottleneck",
          sharing_pairs(*plan.program));
    return trace;
  }
  const Contention shared = options.contention ? find_contention(plan) : Contention{};
  if (!shared.copies.empty()) {
    if (std::optional<Trace> trace = run_sweep(plan, options, shared.copies)) {
      trace->reason = fmt::format(
          "copies that share links are timed together ({}); nothing else is slowed, so other times follow by "
          "max and plus",
          shared.who);
      return std::move(*trace);
    }
  }
  if (!shared.who.empty()) {
    Trace trace = run_events(plan, options);
    trace.reason = "transfers can slow each other: " + shared.who;
    return trace;
  }
  if (!plan.disturbance.none() && folds_noise(plan, options)) {
    Trace trace = run_folded(plan, options);
    trace.reason = "too many ops for a row per device: each stage is one row, as slow as its slowest device";
    return trace;
  }
  const std::string differs = what_differs(plan);
  Trace trace = differs.empty() ? run_folded(plan, options) : run_sweep(plan, options);
  trace.reason = "no transfers can slow each other, so times follow by max and plus";
  trace.reason += differs.empty() ? "; all instances of a role are equal and fold to one" : "; " + differs;
  return trace;
}

}  // namespace

Trace evaluate(const BoundProgram& plan, const EvaluateOptions& options) {
  Trace trace;
  try {
    trace = with_fastest(plan, options);
  } catch (const OutOfOrder& why) {
    trace = run_events(plan, options);
    trace.reason = why.what();
  }
  trace.reason += resolved(plan);
  return trace;
}

}  // namespace tandem::sim

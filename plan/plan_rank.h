// SPDX-License-Identifier: Apache-2.0
#pragma once
// Probabilities, order and what decides it, of candidates that have been predicted.
#include "plan/plan.h"

namespace tandem::plan {

/// P(X <= limit) for a lognormal X whose 5th, 50th and 95th percentiles are the bounds and value, to either
/// side. 1 or 0 where the bounds are the value.
double probability_within(const Estimate& x, double limit);

/// What the candidate's run costs under its offer, with its spare nodes.
Cost cost_of(const Ownership& ownership, const PlanCandidate& candidate, const Estimate& seconds,
             const Estimate& joules);

/// Useful share of the time of `nodes` nodes that write checkpoints as `goodput` says and fail as `failures`
/// says (answers/goodput.h, closed form).
double useful_share(const schemes::Goodput& goodput, int64_t nodes, const answers::Failures& failures);

/// What that many nodes may draw together so that no rack draws more than it may; infinite without a limit.
double watts_within(const Limits& limits, int64_t nodes);
/// Fills the probabilities and in_power.
void judge(const Limits& limits, PlanCandidate& candidate);

/// Orders plan.ranked and fills all that depends on the order. Not empty.
void rank(const PlanQuestion& question, Plan& plan);

}  // namespace tandem::plan

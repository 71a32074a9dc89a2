// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning-rate rules that the literature pairs with synchronisation schemes: pure functions.
#include <cstdint>

#include "exec/run/execution.h"

namespace tandem::exec {

/// Rate of an iteration (counted from 0, those before a checkpoint included). Without `scale` the base; with
/// it base x workers, reached in `warmup` iterations of linear rise from the base (Goyal et al. 2017,
/// Accurate, Large Minibatch SGD, sections 2.1 and 2.2).
float learning_rate(const Execution::Rate& rule, int64_t iteration, int64_t workers);

/// What a store applies a gradient with that is so many versions old: with `by_staleness` divided by
/// max(1, staleness) (Zhang et al. 2015, Staleness-aware Async-SGD, equation 3).
float stale_rate(const Execution::Rate& rule, float rate, int64_t staleness);

}  // namespace tandem::exec

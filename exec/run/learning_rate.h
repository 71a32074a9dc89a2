// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning-rate rules that the literature pairs with synchronisation schemes: pure functions.
#include <cstdint>

#include "exec/request/execution.h"

namespace tandem::exec {

/// Rate of an iteration (counted from 0, including those before a checkpoint). Without `scale` the base; with
/// it base x workers, reached after `warmup` iterations of linear rise from the base (Goyal et al. 2017,
/// Accurate, Large Minibatch SGD, sections 2.1 and 2.2).
float learning_rate(const Execution::Rate& rule, int64_t iteration, int64_t workers);

/// The factor with which a store of `workers` pushing workers applies a gradient of that staleness:
/// - staleness: 1 / max(1, staleness) (Zhang et al. 2016, "Staleness-aware Async-SGD for Distributed Deep
///   Learning", equation 3);
/// - delay: min(1, workers / staleness), since with equally fast workers gradients have that staleness
///   (Koloskova, Stich and Jaggi 2022, "Sharper Convergence Guarantees for Asynchronous SGD", section 4;
///   Mishchenko et al. 2022, "Asynchronous SGD Beats Minibatch SGD Under Arbitrary Delays").
float stale_rate(Store::Rate rule, float rate, int64_t staleness, int64_t workers);

}  // namespace tandem::exec

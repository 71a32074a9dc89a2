// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning-rate rules that the literature pairs with synchronisation schemes: pure functions.
#include <cstdint>

#include "exec/request/execution.h"

namespace tandem::exec {

/// Rate of an iteration (counted from 0, those before a checkpoint included). Without `scale` the base; with
/// it base x workers, reached in `warmup` iterations of linear rise from the base (Goyal et al. 2017,
/// Accurate, Large Minibatch SGD, sections 2.1 and 2.2).
float learning_rate(const Execution::Rate& rule, int64_t iteration, int64_t workers);

/// What a store to which so many `workers` push applies a gradient with that is so many versions old:
///
/// - staleness: divided by max(1, staleness) (Zhang et al. 2016, "Staleness-aware Async-SGD for Distributed
/// Deep
///   Learning", equation 3);
/// - delay: times min(1, workers / staleness), since of so many workers gradients are as stale as that when
/// none
///   is slow (Koloskova, Stich and Jaggi 2022, "Sharper Convergence Guarantees for Asynchronous SGD", section
///   4; Mishchenko et al. 2022, "Asynchronous SGD Beats Minibatch SGD Under Arbitrary Delays").
float stale_rate(Store::Rate rule, float rate, int64_t staleness, int64_t workers);

}  // namespace tandem::exec

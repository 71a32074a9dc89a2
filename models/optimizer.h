// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimisers: how much state they keep and what one update costs.
#include <string_view>
#include <vector>

#include "models/kernel.h"

namespace tandem::models {

/// `state` tensors per parameter stay in memory (fp32) and, with state=params+optimizer, must be sent when
/// parameters are averaged. "none" is a step of forward and backward alone, as many benchmarks time it:
/// gradients are made and communicated, parameters stay.
struct Optimizer {
  std::string_view name, summary;
  int64_t state;  ///< tensors per parameter
  int64_t flops;  ///< per parameter and update
  bool updates() const { return flops > 0; }
};
const std::vector<Optimizer>& optimizers();
/// Throws InputError with the nearest names.
const Optimizer& optimizer(std::string_view name, const Place& place = {});
/// The update of `parameters` elements: reads gradient, parameter and state, writes parameter and state. Only
/// of an optimiser that updates().
Kernel update_kernel(const Optimizer& optimizer, int64_t parameters);

}  // namespace tandem::models

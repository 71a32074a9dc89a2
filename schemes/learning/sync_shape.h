// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a Program decides on progress: whose gradients make a step, how late they are, which models step
// apart and how they are joined. Pure functions and plain values.
#include <cstdint>

#include "base/histogram.h"
#include "schemes/program/program.h"

namespace tandem::schemes {

struct SyncShape {
  double step_samples = 1;  ///< B: whose gradients make one step, of all models together
  double models = 1;        ///< m: that step apart between two averages; 1: a single one
  double period = 1;        ///< tau: steps between two averages
  /// What an average leaves of the distance between models: 0 where they are equal after it, near 1 where
  /// each average joins few of them. Of an elastic force it follows from `averaging`.
  double mixing = 0;
  /// The anchor that models are averaged with; of an elastic one `rate` is that of all models' pull together.
  /// Of gossip elastic with weight 0: partners average before the gradient arrives that they compute
  /// meanwhile.
  Averaging averaging = {};
  int64_t apart_from = 0;  ///< steps whose gradients are summed first (post-local SGD)
};

/// O(ops).
SyncShape sync_shape(const Program& program);

/// Steps by which a gradient is late on average: what the Program states, or of stores that count it the
/// mean of `staleness`, theirs.
double mean_delay(const Program& program, const Histogram& staleness);

}  // namespace tandem::schemes

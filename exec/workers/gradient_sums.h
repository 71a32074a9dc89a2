// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of a step's gradients over its micro-batches, on the worker that computed them. Internal to exec.
#include "exec/workers/handler.h"
#include "exec/workers/pass_plan.h"

namespace tandem::exec {

/// For micro-batches that are iterations of the program, or for those within one.
StepPosition position(const RunPlan& plan, StepPosition of_op, int32_t iteration);

/// Used by the thread of whichever lane computes or reduces the gradients.
class GradientSums {
 public:
  static Needs needs(const Asked& asked);
  GradientSums(Bench& bench, const ModelMemory& memory);
  /// Adds gradients [begin, end) of a micro-batch to the earlier ones of the step; the last one leaves the
  /// sum in their place.
  void add_up(int64_t begin, int64_t end, StepPosition position, Lane lane) const;

 private:
  Bench& bench_;
  const ModelMemory& memory_;
  PackedLayout apart_;  ///< where parts of the flat vector are summed
  float* sums_ = nullptr;
};

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// One device's memory over training steps: a walk through forward, backward and update that takes and frees
// tensors as a framework with reverse-mode differentiation does.
#include "schemes/memory_habits.h"
#include "schemes/scheme.h"
#include "sim/memory/caching_allocator.h"

namespace tandem::sim {

struct WalkInput {
  const Workload* work = nullptr;
  const Program* program = nullptr;
  MemoryHabits habits;
  Bytes workspace;  ///< that libraries take from the allocator for good
  Bytes limit = CachingAllocator::kEndless;
  /// Under one process that drives all devices: 0 apart, or how many devices the master gathers from (on
  /// itself), or -1 on the others, which hold replicas for one step.
  int64_t gathers = 0;
};

/// Each of these at its largest; they need not be so at once, but where the peak is low in activations the
/// others explain it.
struct WalkResult {
  Bytes parameters, gradients, optimizer, buffers, workspace;
  Bytes peak_allocated, peak_reserved;
  bool exceeded = false;  ///< the limit
};

/// Two steps: the first makes the optimiser's state, the second is how training goes on.
/// O(layers log layers).
WalkResult walk_memory(const WalkInput& input);

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a role does in a step, as far as memory goes: passes over its chunks for micro-batches, in issue
// order.
#include <vector>

#include "models/slice.h"
#include "schemes/program/program.h"

namespace tandem::sim {

/// A pass over consecutive layers for one micro-batch.
struct ChunkPass {
  bool forward = true;
  uint32_t micro = 0;
  LayerRange layers;
};

/// From the role's ops: forward over a chunk where the first of its forward ops is, backward where the last
/// op is that makes gradients of its parameters. Micro-batches beyond those that are held together repeat
/// what was and are left out. `layers`: of the graph. O(ops log ops).
std::vector<ChunkPass> chunk_passes(const Program& program, uint32_t role, uint32_t layers);

}  // namespace tandem::sim

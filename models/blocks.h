// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models that repeat one block, and how they would be with fewer of them.
#include <cstdint>

#include "models/graph.h"

namespace tandem::models {

/// How many equal blocks (block_of) stand one after another in the model, where they are most of it: with the
/// same layers, attributes, shapes and parameters, each reading its own block, the one before or what stands
/// before all of them, in the same way. Where up to six blocks alternate these are one block here. Others may
/// stand before and behind. 0 where no two are equal, or where something reads another than the last of them.
/// O(layers).
int64_t equal_blocks(const Graph& graph);

/// The model with the first `count` of its equal_blocks(), of which there are at least as many: what read the
/// last block reads the last that stays. 1 <= count. O(layers).
Graph with_blocks(const Graph& graph, int64_t count);

}  // namespace tandem::models

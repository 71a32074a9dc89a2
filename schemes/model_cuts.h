// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a model is cut into the consecutive parts that pipeline stages hold.
#include <vector>

#include "models/graph.h"

namespace tandem::schemes {

/// `parts` ranges that cover all layers of the graph, in order. A model of repeated blocks with equally many
/// parameters is cut between blocks, the same number in each part where that divides, as Megatron-LM does,
/// which looks neither at windows of attention nor at the output layer; else so that the part with the most
/// work has as little as can be, cutting between blocks or, where there are none or too
/// few, where a single tensor goes across. `layers`: the graph's, lowered, whose matrix products measure the
/// work. Throws InputError, saying how many parts there could be. O(layers x log work).
std::vector<LayerRange> cut_model(const Graph& graph, const std::vector<Lowered>& layers, int64_t parts);

/// Layers before `cut` that are read at or behind it, inputs apart: what goes from one part to the next.
std::vector<uint32_t> crossing(const Graph& graph, uint32_t cut);

}  // namespace tandem::schemes

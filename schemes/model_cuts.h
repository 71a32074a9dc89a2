// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a model is cut into the consecutive parts that pipeline stages hold.
#include <map>
#include <vector>

#include "models/graph.h"
#include "schemes/pipeline_schedule.h"

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

/// A stage and its layer whose first tensor is a weight that other stages have copies of: an embedding, or an
/// output layer tied to it.
struct WeightHolder {
  int32_t stage = 0;
  uint32_t layer = 0;
  bool operator==(const WeightHolder&) const = default;
};
/// By the embedding's layer: who holds its weight, itself first.
using WeightCopies = std::map<uint32_t, std::vector<WeightHolder>>;
/// Weights that are used on several stages. `parts`: of the model, dealt to the stages as the shape says.
/// Throws InputError where two layers of a stage use a weight of another.
WeightCopies weight_copies(const Graph& graph, const std::vector<LayerRange>& parts,
                           const PipelineShape& shape);
/// Layers of a stage that hold such a weight.
std::vector<uint32_t> copies_on(const WeightCopies& copies, int32_t stage);

}  // namespace tandem::schemes

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a model is cut into the consecutive parts that pipeline stages hold.
#include <map>
#include <vector>

#include "models/graph.h"
#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::schemes {

/// By what: the number of repeated blocks, as Megatron-LM does, or work; automatic: by number where that
/// divides and the blocks have equally many parameters.
enum class CutBy : uint8_t { automatic, equal, cost };

/// `parts` ranges that cover all layers of the graph, in order. By number a model is cut between blocks, the
/// same number in each part, whatever windows of attention, experts or the output layer make of the work.
/// Where that does not divide, input and output layers count as a block each, or the output layers alone, if
/// then it does (account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split of
/// Megatron-Core); else parts have as many blocks as can be. By work so that the part with the most
/// work has as little as can be, cutting between blocks or, where there are none or too
/// few, where a single tensor goes across. `layers`: the graph's, lowered, whose matrix products measure the
/// work. Throws InputError, saying how many parts there could be. O(layers x log work).
std::vector<LayerRange> cut_model(const Graph& graph, const std::vector<Lowered>& layers, int64_t parts,
                                  CutBy by = CutBy::automatic);

/// Whether cut_model() can divide the graph into that many parts. O(layers).
bool divides_into(const Graph& graph, int64_t parts);

/// Layers before `cut` that are read at or after it, inputs apart: what goes from one part to the next.
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

}  // namespace tandem::schemes

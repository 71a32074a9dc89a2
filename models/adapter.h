// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fine-tuning: which weights of a model stay as they are, and the small matrices that are learned next to
// them.
#include <string>
#include <string_view>
#include <vector>

#include "models/graph.h"

namespace tandem::models {

/// Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685): next to a weight W[in, out] that stays, A[in,
/// rank] and B[rank, out] are learned, and the layer gives x W + x A B. All other weights of the model stay
/// too.
struct Adapter {
  std::string name;             ///< "lora" or "qlora"
  int64_t rank = 8;             ///< of each pair
  double dropout = 0;           ///< of x on its way to A
  std::vector<std::string> on;  ///< "attention", "mlp", "head", or names of linear layers: "query"
  /// How the weights of linear layers in blocks are stored, a name of storage_formats() or "" as computed
  /// with. Dettmers et al. 2023 (QLoRA, arXiv 2305.14314): 4-bit, made whole again wherever they are used.
  std::string store;
  bool keeps_inputs = false;    ///< of linear layers with stored weights, though no gradient needs them
  bool stores_experts = false;  ///< the weights of experts are stored likewise
};

/// "lora:rank=16,on=attention+mlp", "qlora". Throws InputError at `place`.
Adapter parse_adapter(const std::string& text, const Place& place);
/// "lora:rank=16,on=attention+mlp", as parse_adapter() reads it.
std::string to_text(const Adapter& adapter);

/// The model with the adapter, which its name says. A packed query-key-value projection becomes the three
/// that fine-tuning frameworks have. Throws InputError where no layer is of the kinds that `on` names.
/// O(layers).
Graph with_adapter(const Graph& graph, const Adapter& adapter, const Place& place);

/// The model, named so, with layers frozen: those that each name is the path of or the beginning of one
/// ("conv1", "stage1", "decoder.0"); where there are none, those whose path ends in it ("norm1" of all
/// blocks). Throws InputError for a name that no layer with weights has, and where nothing is left to learn.
Graph with_frozen(const Graph& graph, const std::vector<std::string>& names, const Place& place);

}  // namespace tandem::models

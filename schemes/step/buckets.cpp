// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/buckets.h"

namespace tandem::schemes {

std::string range_name(const Graph& graph, LayerRange layers) {
  const std::string& first = graph.layers()[layers.first].name;
  const std::string& last = graph.layers()[layers.end() - 1].name;
  return first == last ? first : first + ".." + last;
}

std::vector<TensorPart> tensors_of(const Graph& graph, LayerRange layers, int64_t of_frozen) {
  std::vector<TensorPart> out;
  for (uint32_t l = layers.end(); l-- > layers.first;) {
    const Layer& layer = graph.layers()[l];
    for (std::size_t p = layer.parameters.size(); p-- > 0;)
      out.push_back({l, &layer.parameters[p], layer.parameters[p].elements});
    if (of_frozen > 0 && !layer.frozen.empty()) out.push_back({l, nullptr, 0, layer.frozen_bytes(of_frozen)});
  }
  return out;
}

}  // namespace tandem::schemes

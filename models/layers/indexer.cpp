// SPDX-License-Identifier: Apache-2.0
// The indexer beside an attention (DeepSeek-AI 2025, DeepSeek-V3.2): cheap scores of all pairs of positions
// choose the keys that each query sees. Its output is its first input; the loss of the model gives it no
// gradient.
#include <fmt/format.h>

#include "models/layer.h"

namespace tandem::models {

namespace {

/// From what queries are made of {time, rank} and the block's normed input {time, hidden}.
Lowered indexer(const LayerInput& in) {
  if (in.shapes.size() != 2 || in.shapes[0].size() != 2 || in.shapes[1].size() != 2)
    in.attributes.fail("takes what queries are made of and the input of the attention, {time, width} each");
  const int64_t heads = in.attributes.integer("heads"), dim = in.attributes.integer("head_dim"),
                time = in.shapes[0][0], rank = in.shapes[0][1], hidden = in.shapes[1][1],
                rows = product({in.batch, time}), size = in.element_size();
  in.attributes.integer("top", 2048);
  Lowered out;
  out.output = in.shapes[0];
  out.in_place = true;
  out.parameters = {{"query", product({rank, heads, dim})},
                    {"key", product({hidden, dim})},
                    {"key_norm", 2 * dim},
                    {"weights", product({hidden, heads})}};
  const Pass pass = Pass::forward;
  out.forward = {gemm(pass, 1, rows, product({heads, dim}), rank, size),
                 gemm(pass, 1, rows, dim, hidden, size),
                 gemm(pass, 1, rows, heads, hidden, size),
                 gemm(pass, in.batch, product({heads, time}), time, dim, size),
                 reduction(pass, product({rows, heads, time}), product({rows, time}), size),
                 reduction(pass, product({rows, time}), rows, size)};
  out.own = {{product({heads, time, time}), 0, OwnTensor::Life::forward}};
  return out;
}

}  // namespace

void register_indexer(Registry<LayerType>& registry) {
  registry.add({"indexer", "scores that choose the keys of a sparse attention", indexer});
}

}  // namespace tandem::models

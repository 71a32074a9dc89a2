// SPDX-License-Identifier: Apache-2.0
// The indexer of a sparse attention: cheap scores of all pairs of positions choose the keys that each query
// sees (DeepSeek-AI 2025, DeepSeek-V3.2). Its keys may cover several positions each (DeepSeek-V4), and it may
// choose blocks of keys by the best of each, per head (MiniMax-M3). Its output is its first input; the
// model's loss gives it no gradient.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// From the queries' input {time, rank} and the block's normed input {time, hidden}.
Lowered indexer(const LayerInput& in) {
  if (in.shapes.size() != 2 || in.shapes[0].size() != 2 || in.shapes[1].size() != 2)
    in.attributes.fail("takes what queries are made of and the input of the attention, {time, width} each");
  const int64_t heads = in.attributes.integer("heads"), dim = in.attributes.integer("head_dim"),
                block = in.attributes.integer("blocks", 0, 0), ratio = in.attributes.integer("ratio", 1),
                time = in.shapes[0][0], rank = in.shapes[0][1], hidden = in.shapes[1][1],
                rows = product({in.batch, time}), size = in.element_size(),
                keys = ratio > 1 ? time / ratio : time;
  in.attributes.integer("top", 2048);
  if (block > 0 && ratio > 1) in.attributes.fail("blocks of keys that are compressed are not understood");
  Lowered out;
  out.output = in.shapes[0];
  out.in_place = true;
  out.parameters = {{"query", product({rank, heads, dim})}};
  const Pass pass = Pass::forward;
  out.forward = {gemm(pass, 1, rows, product({heads, dim}), rank, size)};
  // Keys of several positions: their values and weights, for this window and the next.
  const int64_t products = ratio > 1 ? 4 : 1;
  out.parameters.push_back({"key", product({hidden, products, dim})});
  for (int64_t i = 0; i < products; ++i) out.forward.push_back(gemm(pass, 1, rows, dim, hidden, size));
  if (ratio > 1) out.parameters.push_back({"position", product({ratio, 2, dim})});
  out.parameters.push_back({"norm", product({ratio > 1 ? 1 : 2, dim})});
  if (block == 0) {
    out.parameters.push_back({"weights", product({hidden, heads})});
    out.forward.push_back(gemm(pass, 1, rows, heads, hidden, size));
  }
  if (keys == 0) return out;
  const int64_t scores = product({heads, time, keys}), sums = block > 0 ? heads : 1,
                chosen = product({in.batch, sums, time, block > 0 ? (keys + block - 1) / block : keys});
  out.forward.insert(out.forward.end(), {gemm(pass, in.batch, product({heads, time}), keys, dim, size),
                                         reduction(pass, product({in.batch, scores}), chosen, size),
                                         reduction(pass, chosen, product({rows, sums}), size)});
  out.own = {{scores, 0, OwnTensor::Life::forward}};
  return out;
}

}  // namespace

void register_indexer(Registry<LayerType>& registry) {
  registry.add({"indexer", "scores that choose the keys of a sparse attention", indexer});
}

}  // namespace tandem::models

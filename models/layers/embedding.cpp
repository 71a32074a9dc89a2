// SPDX-License-Identifier: Apache-2.0
// Learned tables of vectors: words, positions, the class token.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

constexpr int64_t kTokenBytes = 4;  // an int32 identifier

/// {T} identifiers to {T, width}. Forward reads one row per token. The gradient is dense, the frameworks'
/// default: the whole table is zeroed, then dy is added row by row (read dy and row, write row). Each of
/// several devices has a part of the table, looks up the tokens in it and leaves the others zero.
Lowered embedding(const LayerInput& in) {
  const Shape& shape = in.only(1);
  if (shape.size() != 1) in.attributes.fail(fmt::format("takes tokens {{time}}, not {}", to_text(shape)));
  const bool shared = in.split({Split::vocabulary}) == Split::vocabulary && in.ways > 1;
  const int64_t all = in.attributes.integer("vocabulary");
  const int64_t vocabulary = shared ? (all + in.ways - 1) / in.ways : all;
  const int64_t width = in.attributes.integer("width");
  const int64_t tokens = in.total(shape);
  const int64_t size = in.element_size();
  const Bytes ids = Bytes{kTokenBytes} * tokens;
  const Bytes rows = Bytes{size} * product({tokens, width});
  const Bytes table = Bytes{size} * product({vocabulary, width});
  const std::vector<int64_t> key{tokens, width, vocabulary};
  Lowered out;
  out.output = {shared && in.sequence ? in.part(shape[0], "positions") : shape[0], width};
  out.parameters = {{"weight", product({vocabulary, width})}};
  out.parameters[0].rows = vocabulary;
  if (shared) out.output_join = in.sequence ? Join::scatter : Join::sum;
  out.forward = {{KernelKind::embedding, Pass::forward, key, {}, ids + rows, rows}};
  out.backward_weights = {{KernelKind::embedding, Pass::backward_weights, key,
                           Flops{product({tokens, width})}, ids + rows * 2, rows + table}};
  out.keeps_input = true;
  return out;
}

/// Adds row t of a table to element t; the gradient sums dy over the batch.
Lowered position_embedding(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const int64_t length = in.attributes.integer("length", shape[0]);
  if (length < shape[0])
    in.attributes.fail(fmt::format("{} positions for a sequence of {}", length, shape[0]));
  Lowered out;
  out.output = shape;
  const int64_t count = in.total(shape);
  const int64_t used = elements(shape);
  out.parameters = {{"weight", product({length, used / shape[0]})}};
  out.parameters[0].rows = length;
  out.forward = {elementwise(Pass::forward, count, 1, in.element_size(), 1)};
  out.forward[0].read += Bytes{in.element_size()} * used;
  out.backward_weights = {reduction(Pass::backward_weights, count, used, in.element_size())};
  return out;
}

/// {T, W} to {T+1, W}: a learned token in front.
Lowered cls_token(const LayerInput& in) {
  const Shape& shape = in.only(2);
  if (shape.size() != 2) in.attributes.fail(fmt::format("takes {{time, width}}, not {}", to_text(shape)));
  Lowered out;
  out.output = {shape[0] + 1, shape[1]};
  out.parameters = {{"token", shape[1]}};
  const int64_t size = in.element_size();
  const int64_t count = in.total(shape);
  out.forward = {copy_kernel(Pass::forward, checked_add(count, shape[1]), in.total(out.output), size)};
  out.backward_data = {copy_kernel(Pass::backward_data, count, count, size)};
  out.backward_weights = {reduction(Pass::backward_weights, product({in.batch, shape[1]}), shape[1], size)};
  return out;
}

}  // namespace

void register_embedding(Registry<LayerType>& registry) {
  registry.add({"embedding", "rows of a table for tokens: {time} to {time, width}", embedding});
  registry.add({"position-embedding", "adds a learned vector per position", position_embedding});
  registry.add({"cls-token", "puts a learned token before the sequence", cls_token});
}

}  // namespace tandem::models

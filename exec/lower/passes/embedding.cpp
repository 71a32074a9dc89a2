// SPDX-License-Identifier: Apache-2.0
// Learned tables of vectors.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

void embedding(LayerCalls& l) {
  const int64_t tokens = l.batch() * elements(l.shape(0)), width = l.layer().output.back();
  const int64_t vocabulary = l.weights()[0].elements / width;
  // Of the rows of the whole table, where devices share it.
  const int64_t first = l.lowered().output_join == Join::none ? 0 : l.partner() * vocabulary;
  const TensorId table = l.parameter(0, 0.05F);  // tables start small and even: Keras' default
  l.call(make_call(Function::embedding, Pass::forward, {l.out(), table, l.in(0)},
                   {tokens, width, vocabulary, first}, l.lowered().forward));
  if (!l.learns()) return;
  l.call(make_call(Function::embedding_backward, Pass::backward_weights, {l.gradient(0), l.d_out(), l.in(0)},
                   {tokens, width, vocabulary, l.shared() ? 1 : 0, first}, l.lowered().backward_weights));
}

/// Where devices divide the sequence: the rows of the table that their positions have.
void add_positions(LayerCalls& l, int64_t width) {
  const TensorId table = l.parameter(0, 0.05F);
  std::vector<Kernel> forward = l.lowered().forward, backward = l.lowered().backward_weights;
  const int64_t count = l.batch() * elements(l.shape(0));
  l.call(make_call(Function::copy, Pass::forward, {l.out(), l.in(0)}, {count}));
  l.call(make_fill(Pass::backward_weights, l.gradient(0), l.layer().parameters[0].elements, 0));
  for (const PositionRun& run : l.positions(0)) {
    const std::vector<int64_t> size{run.rows * width}, step{1};
    const int64_t row = run.row * width, position = run.position * width;
    l.call(make_move(Pass::forward, l.out(), table, {size, {step, step}, {row, position}, true}, forward));
    l.call(make_move(Pass::backward_weights, l.gradient(0), l.d_out(),
                     {size, {step, step}, {position, row}, true}, backward));
    forward.clear();  // the model prices them as one kernel
    backward.clear();
  }
  if (l.needs_d_in(0)) l.d_in_is_d_out(0);
}

/// Adds row t of the table to element t of the first dimension.
void position_embedding(LayerCalls& l) {
  const Shape& s = l.shape(0);
  const int64_t rest = elements(s) / s[0];
  if (l.divides_sequence()) return add_positions(l, rest);
  const auto stored = strides(s);
  std::vector<int64_t> row(s.size() + 1, 1);  // the table lies {time, rest...}, for every sample the same
  int64_t step = 1;
  for (std::size_t d = s.size(); d-- > 0;) row[d + 1] = step, step *= s[d];
  row[0] = 0;
  const auto sizes = with_batch(l.batch(), s);
  const TensorId table = l.parameter(0, 0.05F);
  const int64_t count = l.batch() * s[0] * rest;
  l.call(make_call(Function::copy, Pass::forward, {l.out(), l.in(0)}, {count}));
  l.call(make_move(Pass::forward, l.out(), table, {sizes, {stored, row}, {0, 0}, true}, l.lowered().forward));
  if (l.needs_d_in(0)) l.d_in_is_d_out(0);
  if (!l.learns()) return;
  l.call(make_fill(Pass::backward_weights, l.gradient(0), l.weights()[0].elements, 0));
  l.call(make_move(Pass::backward_weights, l.gradient(0), l.d_out(), {sizes, {row, stored}, {0, 0}, true},
                   l.lowered().backward_weights));
}

void cls_token(LayerCalls& l) {
  const Shape &from = l.shape(0), &to = l.layer().output;
  const int64_t width = from[1];
  const auto small = strides(from), large = strides(to);
  const std::vector<int64_t> token{0, 1}, first{large[0], 1}, vector{l.batch(), width};
  const auto sizes = with_batch(l.batch(), from);
  l.call(make_move(Pass::forward, l.out(), l.in(0), {sizes, {large, small}, {width, 0}, false},
                   l.lowered().forward));
  l.call(make_move(Pass::forward, l.out(), l.parameter(0, 0.05F), {vector, {first, token}, {0, 0}, false}));
  if (l.needs_d_in(0))
    l.call(make_move(Pass::backward_data, l.d_in(0), l.d_out(), {sizes, {small, large}, {0, width}, false},
                     l.lowered().backward_data));
  if (!l.learns()) return;
  l.call(make_fill(Pass::backward_weights, l.gradient(0), width, 0));
  l.call(make_move(Pass::backward_weights, l.gradient(0), l.d_out(), {vector, {token, first}, {0, 0}, true},
                   l.lowered().backward_weights));
}

}  // namespace

void register_embedding(Registry<LayerExecution>& registry) {
  registry.add({"embedding", "rows of the table; a dense gradient", embedding});
  registry.add({"position-embedding", "a strided sum", position_embedding});
  registry.add({"cls-token", "a strided copy after the token", cls_token});
}

}  // namespace tandem::exec

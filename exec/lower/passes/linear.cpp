// SPDX-License-Identifier: Apache-2.0
// linear: y[rows, out] = x[rows, in] W[in, out] + b, one gemm a pass. Where devices have a part of every row
// each, these are put together before and taken apart again after.
#include <algorithm>

#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// Features of a tensor of the layer's: channels of an image lie last.
int64_t features(const LayerCalls& l, const Shape& shape) {
  return shape[feature_axis(Attributes(l.layer().attributes), shape)];
}

struct LinearSizes {
  int64_t rows, in, out;
};

LinearSizes sizes(const LayerCalls& l, int64_t in) {
  const int64_t out = features(l, l.layer().output);
  // Partners that divide the sequence have more rows on one side: all that they make a part of.
  const int64_t rows = std::max(elements(l.shape(0)) / in, elements(l.layer().output) / out);
  return {l.batch() * rows, in, out};
}

void bias_gradient(LayerCalls& l, std::size_t index, const LinearSizes& s) {
  l.call(make_call(Function::column_sum, Pass::backward_weights, {l.gradient(index), l.d_out()},
                   {s.rows, s.out}, {l.lowered().backward_weights.back()}));
}

/// Parts of rows, as devices gather them one after another, to whole rows (`joins`) or back.
void move_parts(LayerCalls& l, Pass pass, TensorId to, TensorId from, const LinearSizes& s, bool joins,
                const Kernel& kernel) {
  const int64_t width = l.shape(0).back();
  std::vector<int64_t> parts{s.rows * width, width, 1}, whole{width, s.in, 1};
  if (joins) std::swap(parts, whole);
  l.call(make_move(pass, to, from, {{s.in / width, s.rows, width}, {parts, whole}, {0, 0}, false}, {kernel}));
}

void linear(LayerCalls& l) {
  const LinearSizes s = sizes(l, l.weights()[0].elements / features(l, l.layer().output));
  const bool joins = s.in > features(l, l.shape(0));
  const Lowered& w = l.lowered();
  TensorId x = kNoTensor;
  if (joins) {
    x = l.keep(s.rows * s.in, true);
    move_parts(l, Pass::forward, x, l.in(0), s, true, w.forward.front());
  } else {
    x = l.in(0);
  }
  const bool zero = Attributes(l.layer().attributes).boolean("starts_at_zero", false);
  const TensorId weight = l.parameter(0, zero ? 0 : he_bound(s.in));
  const bool bias = l.weights().size() > 1;
  std::vector<TensorId> forward{l.out(), x, weight};
  // Devices that share the inputs each make a part of the sum: one of them adds the bias.
  const TensorId added = bias ? l.parameter(1, 0) : kNoTensor;
  if (bias && (w.output_join == Join::none || l.partner() == 0)) forward.push_back(added);
  l.call(make_call(Function::gemm, Pass::forward, forward, {s.rows, s.out, s.in, 0, 0, 0},
                   {w.forward.begin() + (joins ? 1 : 0), w.forward.end()}));
  if (l.needs_d_in(0)) {
    const TensorId dx = joins ? l.scratch(s.rows * s.in, true) : l.d_in(0);
    l.call(make_call(Function::gemm, Pass::backward_data, {dx, l.d_out(), weight},
                     {s.rows, s.in, s.out, 0, 1, 0},
                     {w.backward_data.begin(), w.backward_data.end() - (joins ? 1 : 0)}));
    if (joins) move_parts(l, Pass::backward_data, l.d_in(0), dx, s, false, w.backward_data.back());
  }
  if (!l.learns()) return;
  l.call(make_call(Function::gemm, Pass::backward_weights,
                   {l.gradient(0), joins ? x : l.in_again(0), l.d_out()}, {s.in, s.out, s.rows, 1, 0, 0},
                   {w.backward_weights.front()}));
  if (bias) bias_gradient(l, 1, s);
}

/// The embedding's table is {vocabulary, width}: its transpose is the weight. Its own backward pass, which
/// comes later, starts from the gradient left here.
void tied_linear(LayerCalls& l) {
  const LinearSizes s = sizes(l, features(l, l.shape(0)));
  const Lowered& w = l.lowered();
  const TensorId table = l.tied(s.out, s.in);
  // The last parameter, after the copy of a table that another device holds.
  const auto& own = l.weights();
  const bool bias = !own.empty() && own.back().name == "bias";
  std::vector<TensorId> forward{l.out(), l.in(0), table};
  if (bias) forward.push_back(l.parameter(own.size() - 1, 0));
  l.call(make_call(Function::gemm, Pass::forward, forward, {s.rows, s.out, s.in, 0, 1, 0}, w.forward));
  if (l.needs_d_in(0)) {
    l.call(make_call(Function::gemm, Pass::backward_data, {l.d_in(0), l.d_out(), table},
                     {s.rows, s.in, s.out, 0, 0, 0}, w.backward_data));
  }
  if (l.tied_gradient() == kNoTensor) return;
  l.call(make_call(Function::gemm, Pass::backward_weights, {l.tied_gradient(), l.d_out(), l.in_again(0)},
                   {s.out, s.in, s.rows, 1, 0, 0}, {w.backward_weights.front()}));
  if (bias) bias_gradient(l, own.size() - 1, s);
}

}  // namespace

void register_linear(Registry<LayerExecution>& registry) {
  registry.add({"linear", "one gemm a pass", linear});
  registry.add({"tied-linear", "one gemm a pass with the embedding's table", tied_linear});
}

}  // namespace tandem::exec

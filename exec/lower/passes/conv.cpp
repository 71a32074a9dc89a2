// SPDX-License-Identifier: Apache-2.0
// Convolutions: the geometry is that of the model's own kernel.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

void conv(LayerCalls& l) {
  const Lowered& w = l.lowered();
  std::vector<int64_t> shape = w.forward.at(0).shape;
  const ConvShape s = ConvShape::unpack(shape);
  shape.push_back(l.shape(0).size() >= 3 ? 1 : 0);  // channels last
  const int64_t fan = s.in_channels / s.groups * product({s.kernel[0], s.kernel[1], s.kernel[2]});
  const TensorId weight = l.parameter(0, he_bound(fan));
  const bool bias = l.weights().size() > 1;
  std::vector<TensorId> forward{l.out(), l.in(0), weight};
  if (bias) forward.push_back(l.parameter(1, 0));
  l.call(make_call(Function::conv, Pass::forward, forward, shape, w.forward));
  if (l.needs_d_in(0)) {
    l.call(make_call(Function::conv_backward_data, Pass::backward_data, {l.d_in(0), l.d_out(), weight}, shape,
                     w.backward_data));
  }
  if (!l.learns()) return;
  l.call(make_call(Function::conv_backward_weights, Pass::backward_weights,
                   {l.gradient(0), l.in(0), l.d_out()}, shape, {w.backward_weights.front()}));
  if (!bias) return;
  const int64_t rows = s.out_elements() / s.out_channels;
  if (shape.back() == 1) {
    l.call(make_call(Function::column_sum, Pass::backward_weights, {l.gradient(1), l.d_out()},
                     {rows, s.out_channels}, {w.backward_weights.back()}));
  } else {
    l.call(make_call(Function::row_sum, Pass::backward_weights, {l.gradient(1), l.d_out()},
                     {s.batch, s.out_channels, rows / s.batch}, {w.backward_weights.back()}));
  }
}

}  // namespace

void register_conv(Registry<LayerExecution>& registry) {
  registry.add({"conv", "direct convolution, channels last", conv});
  registry.add({"depthwise-conv", "direct convolution in groups of one", conv});
  registry.add({"conv-transpose", "the data gradient of a convolution", conv});
}

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
// Pooling: windows over space, means, nearest-neighbour upsampling.
#include "exec/lower/passes/calls.h"
#include "models/layers/window.h"

namespace tandem::exec {

namespace {

/// Shape of the pooling functions: {batch, channels, in[3], out[3], kernel[3], stride[3], pad[3], counts
/// padding, channels last}. Adaptive windows have stride 0: output o covers [o in / out, ceil((o + 1) in /
/// out)).
std::vector<int64_t> pack(const LayerCalls& l, const Window& w, bool counts_padding) {
  std::vector<int64_t> out{l.batch(), l.shape(0)[0]};
  for (const auto* a : {&w.in, &w.out, &w.kernel, &w.stride, &w.pad})
    out.insert(out.end(), a->begin(), a->end());
  out.push_back(counts_padding ? 1 : 0);
  out.push_back(l.shape(0).size() >= 3 ? 1 : 0);
  return out;
}

Window window(const LayerCalls& l, bool may_hang_over) {
  std::vector<Shape> shapes{l.shape(0)};
  const Attributes attributes(l.layer().attributes);
  const LayerInput in{shapes, attributes, l.batch(), Precision::fp32};
  Window w = read_window(in, true, false);
  slide(in, w, may_hang_over && attributes.boolean("ceil", false));
  return w;
}

void averages(LayerCalls& l, const std::vector<int64_t>& shape) {
  l.call(make_call(Function::avg_pool, Pass::forward, {l.out(), l.in(0)}, shape, l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::avg_pool_backward, Pass::backward_data, {l.d_in(0), l.d_out()}, shape,
                   l.lowered().backward_data));
}

void max_pool(LayerCalls& l) {
  const auto shape = pack(l, window(l, true), false);
  const TensorId where = l.keep(l.batch() * elements(l.layer().output));
  l.call(make_call(Function::max_pool, Pass::forward, {l.out(), l.in(0), where}, shape, l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::max_pool_backward, Pass::backward_data, {l.d_in(0), l.d_out(), where}, shape,
                   l.lowered().backward_data));
}

/// Elements of the padding count, as in PyTorch's and Caffe's default.
void avg_pool(LayerCalls& l) { averages(l, pack(l, window(l, true), true)); }

Window whole(const Shape& shape) {
  Window w;
  w.dims = shape.size() - 1;
  for (std::size_t d = 1; d < shape.size(); ++d) w.in[3 - w.dims + d - 1] = shape[d];
  w.kernel = w.in;
  w.stride = w.in;
  return w;
}

void global_pool(LayerCalls& l) { averages(l, pack(l, whole(l.shape(0)), false)); }

void adaptive_pool(LayerCalls& l) {
  Window w = whole(l.shape(0));
  w.stride = {0, 0, 0};
  for (std::size_t d = 1; d < l.layer().output.size(); ++d) w.out[3 - w.dims + d - 1] = l.layer().output[d];
  averages(l, pack(l, w, false));
}

/// Forward of an upsampling is the backward of a mean over its factor, times the window's size; and the other
/// way round.
void upsample(LayerCalls& l) {
  Window w = whole(l.shape(0));  // of the mean: its output is this layer's input
  w.out = w.in;
  for (std::size_t d = 1; d < l.layer().output.size(); ++d) w.in[3 - w.dims + d - 1] = l.layer().output[d];
  for (std::size_t d = 0; d < 3; ++d) w.kernel[d] = w.stride[d] = w.in[d] / w.out[d];
  auto shape = pack(l, w, false);
  const auto scale = static_cast<float>(volume(w.kernel));
  l.call(make_call(Function::avg_pool_backward, Pass::forward, {l.out(), l.in(0)}, shape, l.lowered().forward,
                   {scale}));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::avg_pool, Pass::backward_data, {l.d_in(0), l.d_out()}, shape,
                   l.lowered().backward_data, {scale}));
}

/// Mean over one dimension of a sample as stored: {outer, length, inner} to {outer, inner}.
void mean(LayerCalls& l) {
  const Shape& shape = l.shape(0);
  const auto axis = static_cast<std::size_t>(
      Attributes(l.layer().attributes).integer("axis", 0, 0, static_cast<int64_t>(shape.size()) - 1));
  if (shape.size() >= 3) {
    throw InputError(l.layer().attributes.place(),
                     "\"mean\" of a tensor of three or more dimensions cannot be executed; use global-pool");
  }
  Window w;  // {batch x outer} images of length x 1 with `inner` channels last
  int64_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  w.in = w.kernel = w.stride = {1, 1, shape[axis]};
  std::vector<int64_t> pool = pack(l, w, false);
  pool[0] = l.batch() * elements(shape) / shape[axis] / inner;
  pool[1] = inner;
  pool.back() = 1;
  averages(l, pool);
}

}  // namespace

void register_pool(Registry<LayerExecution>& registry) {
  registry.add({"max-pool", "remembers where each maximum was", max_pool});
  registry.add({"avg-pool", "means of windows, padding counted", avg_pool});
  registry.add({"global-pool", "one window a channel", global_pool});
  registry.add({"adaptive-pool", "windows of varying size", adaptive_pool});
  registry.add({"upsample", "the backward pass of a mean", upsample});
  registry.add({"mean", "one window a row", mean});
}

}  // namespace tandem::exec

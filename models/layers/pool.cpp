// SPDX-License-Identifier: Apache-2.0
// Pooling, upsampling and means: kernels of kind pool with shape {planes, in, out, window}.
#include "models/layers/window.h"

namespace tandem::models {

namespace {

/// Forward reads x, writes y; `window` operations an output. Backward reads dy and writes dx, and for a
/// maximum also reads x and y to find where it was.
Lowered pooling(const LayerInput& in, Shape output, int64_t in_space, int64_t out_space, int64_t window,
                bool maximum) {
  Lowered out;
  const int64_t planes = in.total(in.shapes[0]) / in_space;
  const Bytes x = Bytes{in.element_size()} * product({planes, in_space});
  const Bytes y = Bytes{in.element_size()} * product({planes, out_space});
  const Flops work{product({planes, out_space, window})};
  const std::vector<int64_t> shape{planes, in_space, out_space, window};
  out.forward = {{KernelKind::pool, Pass::forward, shape, work, x, y}};
  out.backward_data = {{KernelKind::pool, Pass::backward_data, shape, work, maximum ? x + y + y : y, x}};
  out.output = std::move(output);
  out.keeps_input = out.keeps_output = maximum;
  return out;
}

Lowered window_pool(const LayerInput& in, bool maximum) {
  Window w = read_window(in, true, false);
  slide(in, w, in.attributes.boolean("ceil", false));
  return pooling(in, w.output(in.shapes[0][0]), volume(w.in), volume(w.out), volume(w.kernel), maximum);
}

Lowered max_pool(const LayerInput& in) { return window_pool(in, true); }
Lowered avg_pool(const LayerInput& in) { return window_pool(in, false); }

Lowered global_pool(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const int64_t space = elements(shape) / shape[0];
  return pooling(in, {shape[0]}, space, 1, space, false);
}

/// Windows that share the input evenly; the last counts as full.
Lowered adaptive_pool(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const auto size = in.attributes.sizes("size", shape.size() - 1);
  Shape output{shape[0]};
  int64_t window = 1;
  for (std::size_t d = 0; d < size.size(); ++d) {
    output.push_back(size[d]);
    window = product({window, (shape[d + 1] + size[d] - 1) / size[d]});
  }
  const int64_t out_space = elements(output) / shape[0];
  return pooling(in, output, elements(shape) / shape[0], out_space, window, false);
}

/// Nearest neighbour: every element is written factor times in each dimension; backward sums them.
Lowered upsample(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const auto factor = in.attributes.sizes("factor", shape.size() - 1);
  Shape output = shape;
  for (std::size_t d = 1; d < output.size(); ++d) output[d] = product({output[d], factor[d - 1]});
  return pooling(in, output, elements(shape) / shape[0], elements(output) / shape[0], 1, false);
}

Lowered mean(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const auto axis =
      static_cast<std::size_t>(in.attributes.integer("axis", 0, 0, static_cast<int64_t>(shape.size()) - 1));
  Shape output = shape;
  output.erase(output.begin() + static_cast<std::ptrdiff_t>(axis));
  return pooling(in, output, shape[axis], 1, shape[axis], false);
}

}  // namespace

void register_pool(Registry<LayerType>& registry) {
  registry.add({"max-pool", "largest element of each window", max_pool});
  registry.add({"avg-pool", "mean of each window", avg_pool});
  registry.add({"global-pool", "mean of each channel: {channels, space...} to {channels}", global_pool});
  registry.add({"adaptive-pool", "means over windows chosen to give a fixed size", adaptive_pool});
  registry.add({"upsample", "repeats every element along each spatial dimension", upsample});
  registry.add({"mean", "mean over one dimension, which disappears", mean});
}

}  // namespace tandem::models

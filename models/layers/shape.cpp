// SPDX-License-Identifier: Apache-2.0
// Layers that move or rename elements without arithmetic.
#include <fmt/format.h>

#include <algorithm>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// The same memory under another shape: no kernel.
Lowered view(Shape output) {
  Lowered out;
  out.output = std::move(output);
  out.in_place = true;
  return out;
}

Lowered flatten(const LayerInput& in) { return view({elements(in.only())}); }

Lowered reshape(const LayerInput& in) {
  const Shape wanted = in.attributes.list("shape", 1);
  if (wanted.size() > 8) in.attributes.fail("a shape has at most 8 dimensions");
  if (elements(wanted) != elements(in.only())) {
    in.attributes.fail(fmt::format("{} has {} elements, the input {} has {}", to_text(wanted),
                                   elements(wanted), to_text(in.shapes[0]), elements(in.shapes[0])));
  }
  return view(wanted);
}

std::size_t axis_of(const LayerInput& in, const Shape& shape) {
  return static_cast<std::size_t>(
      in.attributes.integer("axis", 0, 0, static_cast<int64_t>(shape.size()) - 1));
}

/// [begin, end) of one axis: a view in forward; backward writes its part of the input's gradient.
Lowered range(const LayerInput& in, std::size_t axis, int64_t begin, int64_t end) {
  Lowered out = view(in.shapes[0]);
  out.output[axis] = end - begin;
  const int64_t count = in.total(out.output);
  out.backward_data = {copy_kernel(Pass::backward_data, count, count, in.element_size())};
  return out;
}

Lowered slice(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const std::size_t axis = axis_of(in, shape);
  const int64_t begin = in.attributes.integer("begin", 0, 0, shape[axis] - 1);
  const int64_t end = in.attributes.integer("end", shape[axis], begin + 1, shape[axis]);
  return range(in, axis, begin, end);
}

Lowered split(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const std::size_t axis = axis_of(in, shape);
  const int64_t parts = in.attributes.integer("parts");
  const int64_t index = in.attributes.integer("index", 0, 0, parts - 1);
  if (shape[axis] % parts != 0) {
    in.attributes.fail(fmt::format("{} parts do not divide dimension {} of {}", parts, axis, to_text(shape)));
  }
  const int64_t each = shape[axis] / parts;
  return range(in, axis, index * each, (index + 1) * each);
}

/// Permutes the dimensions: one copy each way, unless nothing moves.
Lowered transpose(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const auto order = in.attributes.list("order", 0);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = sorted.size() == shape.size();
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i)
    permutation = sorted[i] == static_cast<int64_t>(i);
  if (!permutation) {
    in.attributes.fail(
        fmt::format("\"order\" must name each of the input's dimensions 0 .. {} once", shape.size() - 1));
  }
  Shape output;
  for (const int64_t d : order) output.push_back(shape[static_cast<std::size_t>(d)]);
  if (order == sorted) return view(output);
  Lowered out;
  out.output = std::move(output);
  const int64_t count = in.total(shape);
  out.forward = {copy_kernel(Pass::forward, count, count, in.element_size())};
  out.backward_data = {copy_kernel(Pass::backward_data, count, count, in.element_size())};
  return out;
}

/// Along one axis every element moves by `by` places, the last ones to the front: one copy each way.
Lowered roll(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const int64_t size = shape[axis_of(in, shape)];
  in.attributes.integer("by", 1, -size, size);
  Lowered out;
  out.output = shape;
  const int64_t count = in.total(shape);
  out.forward = {copy_kernel(Pass::forward, count, count, in.element_size())};
  out.backward_data = {copy_kernel(Pass::backward_data, count, count, in.element_size())};
  return out;
}

/// Zeros on both sides of every spatial dimension.
Lowered pad(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const auto amount = in.attributes.list("amount", shape.size() - 1, 1, 0);
  Lowered out;
  out.output = shape;
  for (std::size_t d = 0; d < amount.size(); ++d) out.output[d + 1] += 2 * amount[d];
  const int64_t small = in.total(shape);
  const int64_t large = in.total(out.output);
  out.forward = {copy_kernel(Pass::forward, small, large, in.element_size())};
  out.backward_data = {copy_kernel(Pass::backward_data, small, small, in.element_size())};
  return out;
}

}  // namespace

void register_shape(Registry<LayerType>& registry) {
  registry.add({"flatten", "all dimensions as one", flatten});
  registry.add({"reshape", "the same elements under another shape", reshape});
  registry.add({"slice", "a range of one dimension", slice});
  registry.add({"split", "one of several equal parts of a dimension", split});
  registry.add({"transpose", "permutes the dimensions", transpose});
  registry.add({"roll", "moves elements along a dimension, the last ones to the front", roll});
  registry.add({"pad", "zeros around the spatial dimensions", pad});
}

}  // namespace tandem::models

// SPDX-License-Identifier: Apache-2.0
#include "models/layers/layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem::models {

std::string to_text(const Shape& shape) {
  return shape.empty() ? std::string("scalar") : fmt::format("{}", fmt::join(shape, "x"));
}

int64_t product(std::initializer_list<int64_t> factors) {
  int64_t out = 1;
  for (const int64_t f : factors) out = checked_mul(out, f, "a tensor or product");
  return out;
}

int64_t elements(const Shape& shape) {
  int64_t out = 1;
  for (const int64_t d : shape) out = checked_mul(out, d, "a tensor");
  return out;
}

std::size_t feature_axis(const Attributes& attributes, const Shape& shape) {
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const int64_t axis = attributes.integer("axis", last, 0, last);
  if (axis != last && (axis != 0 || last < 2)) {
    attributes.fail(fmt::format("\"axis\" is the last dimension of {}{}", to_text(shape),
                                last < 2 ? "" : " or 0, the channels"));
  }
  return static_cast<std::size_t>(axis);
}

const Shape& LayerInput::only(std::size_t least_dims) const {
  if (shapes.size() != 1) attributes.fail(fmt::format("takes one input, not {}", shapes.size()));
  if (shapes[0].size() < least_dims) {
    attributes.fail(
        fmt::format("needs an input of at least {} dimensions, not {}", least_dims, to_text(shapes[0])));
  }
  return shapes[0];
}

Split LayerInput::split(std::initializer_list<Split> valid) const {
  constexpr std::string_view names[] = {"whole", "columns", "rows", "heads", "vocabulary", "experts"};
  const std::string text = attributes.text("split", "whole");
  std::string known = "whole";
  for (const Split s : valid) {
    const std::string_view word = names[static_cast<std::size_t>(s)];
    if (text == word) return s;
    known += fmt::format(", {}", word);
  }
  if (text != "whole") attributes.fail(fmt::format("no split \"{}\". Valid: {}", printable(text), known));
  return Split::whole;
}

int64_t LayerInput::part(int64_t count, std::string_view what) const {
  if (count % ways != 0)
    attributes.fail(fmt::format("{} {} do not divide over {} devices", count, what, ways));
  return count / ways;
}

Kernel gemm(Pass pass, int64_t batch, int64_t m, int64_t n, int64_t k, int64_t size) {
  const Bytes a = Bytes{size} * product({batch, m, k});
  const Bytes b = Bytes{size} * product({batch, k, n});
  const Bytes c = Bytes{size} * product({batch, m, n});
  return {KernelKind::gemm, pass, {batch, m, n, k}, Flops{2} * product({batch, m, n, k}), a + b, c};
}

Kernel convolution(Pass pass, const ConvShape& shape, int64_t size) {
  const Bytes x = Bytes{size} * shape.in_elements();
  const Bytes y = Bytes{size} * shape.out_elements();
  const Bytes w = Bytes{size} * shape.weight_elements();
  Kernel k{KernelKind::conv, pass, shape.pack(), Flops{2} * shape.macs(), {}, {}};
  switch (pass) {
    case Pass::backward_data:
      k.read = y + w, k.written = x;
      break;
    case Pass::backward_weights:
      k.read = x + y, k.written = w;
      break;
    default:
      k.read = x + w, k.written = y;
      break;
  }
  return k;
}

Kernel elementwise(Pass pass, int64_t count, int64_t inputs, int64_t size, int64_t flops_per_element) {
  const Bytes tensor = Bytes{size} * count;
  return {KernelKind::elementwise, pass,  {count, inputs}, Flops{flops_per_element} * count,
          tensor * inputs,         tensor};
}

Kernel copy_kernel(Pass pass, int64_t read, int64_t written, int64_t size) {
  Kernel k = elementwise(pass, written, 1, size, 0);
  k.read = Bytes{size} * read;
  return k;
}

Kernel reduction(Pass pass, int64_t count, int64_t results, int64_t size) {
  Kernel k = elementwise(pass, count, 1, size, 1);
  k.written = Bytes{size} * results;
  return k;
}

int64_t own_kept_bytes(const Lowered& lowered, int64_t size) {
  int64_t sum = 0;
  for (const OwnTensor& t : lowered.own) {
    if (t.life == OwnTensor::Life::kept)
      sum = checked_add(sum, checked_mul(t.elements, t.size > 0 ? t.size : size, "a tensor"), "a tensor");
  }
  return sum;
}

}  // namespace tandem::models

// SPDX-License-Identifier: Apache-2.0
// Layers of several inputs.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// Sizes of 1 stretch; a vector also stretches along channels ({C} over {C,H,W}) or rows ({F} over {T,F}).
bool broadcasts(const Shape& small, const Shape& large) {
  if (small.empty()) return true;
  if (small.size() == 1 && large.size() > 1)
    return small[0] == 1 || small[0] == large.front() || small[0] == large.back();
  if (small.size() != large.size()) return false;
  for (std::size_t d = 0; d < small.size(); ++d) {
    if (small[d] != large[d] && small[d] != 1) return false;
  }
  return true;
}

/// Elements (of the batch) of the inputs after the first, which may be smaller: with `groups` they may have
/// one element per that many features.
std::vector<int64_t> other_elements(const LayerInput& in, int64_t groups = 0) {
  if (in.shapes.size() < 2) in.attributes.fail("needs at least two inputs (\"from\": [a, b])");
  std::vector<int64_t> out;
  for (std::size_t i = 1; i < in.shapes.size(); ++i) {
    Shape stretched = in.shapes[i];
    if (groups > 0 && !stretched.empty()) stretched.back() = product({stretched.back(), groups});
    if (!broadcasts(in.shapes[i], in.shapes[0]) && stretched != in.shapes[0]) {
      in.attributes.fail(
          fmt::format("shapes {} and {} do not fit", to_text(in.shapes[0]), to_text(in.shapes[i])));
    }
    out.push_back(in.total(in.shapes[i]));
  }
  return out;
}

/// Reads every input once.
Kernel forward_kernel(const LayerInput& in, const std::vector<int64_t>& others) {
  const int64_t count = in.total(in.shapes[0]);
  Kernel k = elementwise(Pass::forward, count, static_cast<int64_t>(in.shapes.size()), in.element_size(),
                         static_cast<int64_t>(others.size()));
  k.read = Bytes{in.element_size()} * count;
  for (const int64_t n : others) k.read += Bytes{in.element_size()} * n;
  return k;
}

/// The gradient passes unchanged to every input: no kernel, but a sum for a broadcast input.
Lowered add(const LayerInput& in) {
  const auto others = other_elements(in);
  Lowered out;
  out.output = in.shapes[0];
  out.forward = {forward_kernel(in, others)};
  const int64_t count = in.total(in.shapes[0]);
  for (const int64_t n : others) {
    if (n < count) out.backward_data.push_back(reduction(Pass::backward_data, count, n, in.element_size()));
  }
  return out;
}

/// An input's gradient is dy times the other inputs. "groups": one element of them per that many features.
Lowered mul(const LayerInput& in) {
  const auto others = other_elements(in, in.attributes.integer("groups", 0, 0));
  Lowered out;
  out.cheap = Lowered::Cheap::activation;  // with a gate
  out.output = in.shapes[0];
  out.forward = {forward_kernel(in, others)};
  const int64_t count = in.total(in.shapes[0]);
  const int64_t size = in.element_size();
  Kernel first = out.forward[0];  // dy in place of x
  first.pass = Pass::backward_data;
  out.backward_data.push_back(first);
  for (const int64_t n : others) {
    Kernel k = elementwise(Pass::backward_data, count, 2, size, n < count ? 2 : 1);
    k.written = Bytes{size} * n;
    out.backward_data.push_back(k);
  }
  out.keeps_input = true;
  return out;
}

Lowered concat(const LayerInput& in) {
  const Shape& first = in.shapes[0];
  if (in.shapes.size() < 2) in.attributes.fail("needs at least two inputs (\"from\": [a, b])");
  if (first.empty()) in.attributes.fail("scalars cannot be concatenated");
  const auto axis =
      static_cast<std::size_t>(in.attributes.integer("axis", 0, 0, static_cast<int64_t>(first.size()) - 1));
  Lowered out;
  out.output = first;
  for (std::size_t i = 1; i < in.shapes.size(); ++i) {
    Shape other = in.shapes[i];
    if (other.size() == first.size()) {
      out.output[axis] = checked_add(out.output[axis], other[axis], "a dimension");
      other[axis] = first[axis];
    }
    if (other != first) {
      in.attributes.fail(fmt::format("shapes {} and {} differ outside axis {}", to_text(first),
                                     to_text(in.shapes[i]), axis));
    }
  }
  const int64_t count = in.total(out.output);
  out.forward = {copy_kernel(Pass::forward, count, count, in.element_size())};
  out.backward_data = {copy_kernel(Pass::backward_data, count, count, in.element_size())};
  return out;
}

}  // namespace

void register_merge(Registry<LayerType>& registry) {
  registry.add({"add", "sum of two or more tensors", add});
  registry.add({"mul", "product of two or more tensors, element by element", mul});
  registry.add({"concat", "tensors one after another along an axis", concat});
}

}  // namespace tandem::models

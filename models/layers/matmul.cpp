// SPDX-License-Identifier: Apache-2.0
// Products of two tensors, neither of which is learned.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// {b, m, k} times {b, k, n}, or without b. Backward: dy times each, so both are kept.
Lowered matmul(const LayerInput& in) {
  if (in.shapes.size() != 2) in.attributes.fail(fmt::format("takes two inputs, not {}", in.shapes.size()));
  const Shape &a = in.shapes[0], &b = in.shapes[1];
  const std::size_t dims = a.size();
  const bool fit = (dims == 2 || dims == 3) && b.size() == dims && a[dims - 1] == b[dims - 2] &&
                   (dims == 2 || a[0] == b[0]);
  if (!fit)
    in.attributes.fail(
        fmt::format("takes {{rows, inner}} and {{inner, columns}}, or stacks of them, not {} and {}",
                    to_text(a), to_text(b)));
  const int64_t stack = product({in.batch, dims == 3 ? a[0] : 1}), m = a[dims - 2], k = a[dims - 1],
                n = b[dims - 1], size = in.element_size();
  Lowered out;
  out.output = a;
  out.output[dims - 1] = n;
  out.forward = {gemm(Pass::forward, stack, m, n, k, size)};
  out.backward_data = {gemm(Pass::backward_data, stack, m, k, n, size),
                       gemm(Pass::backward_data, stack, k, n, m, size)};
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_matmul(Registry<LayerType>& registry) {
  registry.add({"matmul", "product of two tensors, or of two stacks of matrices", matmul});
}

}  // namespace tandem::models

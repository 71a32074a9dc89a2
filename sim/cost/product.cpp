// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/product.h"

namespace tandem::sim {

Product product_of(const ConvShape& s, Pass pass) {
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  const auto volume = [&](const std::array<int64_t, 3>& a) {
    return count(a[0]) * count(a[1]) * count(a[2]);
  };
  const double groups = count(s.groups), batch = count(s.batch), taps = volume(s.kernel);
  const double in_channels = count(s.in_channels) / groups, out_channels = count(s.out_channels) / groups;
  // All three passes do the same multiply-adds: the third size follows from the other two.
  const double macs = count(s.macs()) / groups;
  if (pass == Pass::backward_weights) {
    return {groups, out_channels, in_channels * taps, macs / (out_channels * in_channels * taps)};
  }
  const bool makes_input = (pass == Pass::backward_data) != s.transposed;
  const double rows = batch * volume(pass == Pass::backward_data ? s.in : s.out);
  const double columns = makes_input ? in_channels : out_channels;
  return {groups, rows, columns, macs / (rows * columns)};
}

std::optional<Product> product_of(const Kernel& k) {
  const auto size = [&](std::size_t i) { return static_cast<double>(k.shape.at(i)); };
  if (k.kind == KernelKind::conv && k.shape.size() == 23)
    return product_of(ConvShape::unpack(k.shape), k.pass);
  if (k.kind == KernelKind::gemm && k.shape.size() == 4) return Product{size(0), size(1), size(2), size(3)};
  if (k.kind == KernelKind::attention && k.shape.size() == 8)
    return Product{size(0) * size(1), size(3), size(4), size(5)};
  return {};
}

}  // namespace tandem::sim

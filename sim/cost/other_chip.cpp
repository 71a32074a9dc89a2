// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/other_chip.h"

#include "schemes/setup/recipe.h"

namespace tandem::sim {

OtherChip::OtherChip(const Device& measured, Precision measured_in, const Device& other, Precision precision)
    : measured_(measured, measured_in, "stock", load_recipe("pytorch-channels-last")),
      other_(other, precision, "stock", load_recipe("pytorch-channels-last")) {
  if (precision == Precision::fp8)
    rest_.emplace(other, Precision::bf16, "stock", load_recipe("pytorch-channels-last"));
}

bool same_prices(const Device& a, const Device& b) {
  const auto same = [](const auto& x, const auto& y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i].flops_per_second != y[i].flops_per_second) return false;
    }
    return true;
  };
  return a.kind == b.kind && a.vendor == b.vendor && a.kernels == b.kernels && a.units == b.units &&
         a.launch.ps == b.launch.ps && a.fp32_products == b.fp32_products &&
         a.memory_bandwidth.bytes_per_second == b.memory_bandwidth.bytes_per_second && same(a.peak, b.peak) &&
         same(a.best_product, b.best_product);
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that were measured on one GPU, priced on another or in another format: what they took, times what
// the stock curves (kernel_cost.h) say of the kernel there over what they say of it as it was measured. Of
// two devices of one architecture the curves are the same, so that their descriptions alone make the
// difference: peaks, best products, memory bandwidth, multiprocessors, least time between starts.
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/kernel_cost.h"

namespace tandem::sim {

/// Immutable; any thread may call it.
class OtherChip {
 public:
  /// As the executor lays tensors out on GPUs. Throws InputError as KernelCost does.
  OtherChip(const Device& measured, Precision measured_in, const Device& other, Precision precision);
  /// Time on the other over time on the measured one: above 0, 1 where they are described equally.
  /// In fp8 only products are, as the executor has it: all else stays in 2 bytes.
  double ratio(const Kernel& kernel) const {
    const bool eighth = kernel.kind == KernelKind::gemm && !kernel.half;
    return (rest_ && !eighth ? *rest_ : other_).seconds(kernel) / measured_.seconds(kernel);
  }
  /// What this adds to the relative standard error of a step, as a variance adds: as much as the curves err
  /// of a device that was left out of their fit. On devices of one architecture they err in the same
  /// direction, so this is on the safe side.
  double error() const { return other_.relative_error(); }
  /// What the curves of the other assume, in words.
  const std::vector<std::string>& extrapolates() const { return other_.extrapolates(); }

 private:
  KernelCost measured_, other_;
  std::optional<KernelCost> rest_;  ///< of fp8: what is in bf16
};

/// Do kernels take as long on both, by all that KernelCost reads of a device?
bool same_prices(const Device& a, const Device& b);

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that were measured on one GPU, priced on another: what they took, times what the stock curves
// (kernel_cost.h) say of the kernel on the other over what they say of it on the measured one. Of two devices
// of one architecture the curves are the same, so that their descriptions alone make the difference: peaks,
// best products, memory bandwidth, multiprocessors, least time between starts.
#include "sim/cost/kernel_cost.h"

namespace tandem::sim {

/// Immutable; any thread may call it.
class OtherChip {
 public:
  /// As the executor lays tensors out on GPUs. Throws InputError as KernelCost does.
  OtherChip(const Device& measured, const Device& other, Precision precision);
  /// Time on the other over time on the measured one: above 0, 1 where they are described equally.
  double ratio(const Kernel& kernel) const { return other_.seconds(kernel) / measured_.seconds(kernel); }
  /// What this adds to the relative standard error of a step, as a variance adds: as much as the curves err
  /// of a device that was left out of their fit. On devices of one architecture they err in the same
  /// direction, so this is on the safe side.
  double error() const { return other_.relative_error(); }

 private:
  KernelCost measured_, other_;
};

/// Do kernels take as long on both, by all that KernelCost reads of a device?
bool same_prices(const Device& a, const Device& b);

}  // namespace tandem::sim

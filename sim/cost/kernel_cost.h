// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one kernel takes on one device: a roofline whose two roofs are scaled by achieved-efficiency curves
// per (architecture, arithmetic, kernel kind, pass), plus launch. The stock curves are data
// (calibration/profiles/stock.json), fitted by calibration/fit/fit_stock.py from published kernel, layer and
// whole-model timings.
//
//   seconds  = repeat * max(floor, launch + (compute^4 + memory^4)^(1/4)), one launch for all tensors of an
//   update compute  = flops / (peak * efficiency * winograd * grouped * used) + gather used     = M/(M+edge)
//   * N/(N+edge) * K/(K+depth) * W/(W+fill) memory   = bytes / (bandwidth * achieved) + bytes / (units *
//   stream)
//
// M, N, K (and G products) are the matrix product that a gemm or an implicit-gemm convolution does in its
// pass; W = G M N sqrt(K) / units says in tiles how well the product fills the device. `gather` is what
// convolutions on matrix units wait for operands, flops / (units * feed): it keeps boards with huge matrix
// peaks from huge convolution rates. `peak` is the datasheet's, but for boards whose fastest measured product
// (Device::best_product) is less than `gemm` of that, for want of power (L4, A10, H100 PCIe, fp32 on Ampere
// and later): there it is that product divided by `gemm` and by what its size uses. Depthwise convolutions
// and all kinds without a matrix product are memory only. Products of 2-byte numbers on matrix units whose
// features or channels are no multiple of 8 reach `odd` of the rate. Kernels that run in a batch
// normalisation's (schemes::joins_norm) take what they move besides at its efficiency. Where a recipe says
// that cuDNN copies the operands of convolutions (Recipe::Convolutions), those of 2 bytes are read and
// written once more, as elementwise kernels do, but not for convolutions in groups. `floor` is the roofline
// at efficiency 1. What the host takes to issue kernels is none of the chip's costs: schemes/setup/recipe.h.
// A recipe's factors multiply the efficiency of convolutions and divide the bytes of normalisation, pooling
// and elementwise kernels.
#include <memory>
#include <string>
#include <vector>

#include "models/layers/kernel.h"
#include "schemes/setup/recipe.h"
#include "topologies/devices/device.h"

namespace tandem::sim {

/// Prices kernels on one device at one precision. Immutable; thread safe.
class KernelCost {
 public:
  /// Reads the stock profile once per process. An architecture without measurements gets the curve of the
  /// profile's nearest one; extrapolates() then says so. Throws InputError when the profile is unreadable
  /// or malformed.
  /// `profile`: a name in calibration/profiles or a file of the same layout; throws InputError.
  KernelCost(const Device& device, Precision precision, const std::string& profile = "stock",
             const Recipe& recipe = {});
  ~KernelCost();
  KernelCost(KernelCost&&) noexcept;
  KernelCost& operator=(KernelCost&&) noexcept;
  /// A product's arithmetic needs multiprocessors, and memory for a share of its time. All other kernels
  /// stream: what they wait for is memory.
  struct Needs {
    bool product = false;
    double memory = 1;
  };
  /// All `repeat` launches of the kernel. Never below the roofline at efficiency 1, where 3x3 convolutions
  /// of stride 1 in fp32 arithmetic may use 2.25 times fewer multiplications (Winograd). Below 1 us of work.
  /// `needs`, where asked for: what it waits for meanwhile.
  double seconds(const Kernel& kernel, Needs* needs = nullptr) const;
  /// Relative standard error of a whole training step, from devices left out of the fit.
  double relative_error() const;
  /// What was assumed for lack of measurements, in words; empty when nothing was.
  const std::vector<std::string>& extrapolates() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::sim

#pragma once
// What one kernel takes on one device: a roofline whose two roofs are scaled by achieved-efficiency curves
// per (architecture, kernel kind, pass, precision), plus launch. The stock curves are data
// (calibration/profiles/stock.json), fitted by calibration/fit_stock.py from published kernel and layer
// timings. Floor 3.
#include <memory>
#include <string>
#include <vector>

#include "models/kernel.h"
#include "topologies/device.h"

namespace tandem {

/// Prices kernels on one device at one precision. Immutable; thread safe.
class KernelCost {
 public:
  /// Reads the stock profile once per process. Falls back along architecture generations when a curve is
  /// missing; extrapolates() then says so.
  KernelCost(const Device& device, Precision precision);
  ~KernelCost();
  KernelCost(KernelCost&&) noexcept;
  /// All `repeat` launches of the kernel. Never below the roofline at efficiency 1.
  double seconds(const Kernel& kernel) const;
  /// Relative standard error of the fit behind `seconds`, for the prediction interval.
  double relative_error() const;
  const std::vector<std::string>& extrapolates() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem

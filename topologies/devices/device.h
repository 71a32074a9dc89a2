// SPDX-License-Identifier: Apache-2.0
#pragma once
// Accelerators and processors as data (topologies/devices/*.json).
#include <array>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/precision.h"

namespace tandem::topologies {

/// Datasheet figures of one device. Rates are dense peaks; what a kernel reaches of them is sim/cost's
/// affair.
struct Device {
  std::string name, summary;
  enum class Kind : uint8_t { gpu, cpu, tpu } kind = Kind::gpu;
  std::string vendor;
  std::string architecture;  ///< "pascal", "volta", "hopper", "cdna2", "skylake", ...
  /// Whose stock curves price its kernels: its architecture, unless chips of one architecture differ
  /// ("ampere-ga10x": half the matrix units of an A100 a multiprocessor, another memory and cache).
  std::string kernels;
  int year = 0;
  /// Peak per precision; 0 = not supported natively (the cost model then falls back to fp32 arithmetic
  /// with the smaller format's bytes).
  std::array<FlopRate, kPrecisions> peak{};
  /// Of the fastest matrix product that was ever measured on it; 0 = nobody looked.
  std::array<FlopRate, kPrecisions> best_product{};
  Bandwidth memory_bandwidth;
  Bytes memory;
  Bytes usable;   ///< of it, what the driver offers; without a figure 98.5 % of a GPU's, all of others'
  int units = 0;  ///< SMs, CUs, cores: the grain of wave quantisation
  double boost_mhz = 0;  ///< highest clock of the cores, 0 = unknown
  Time launch;           ///< least time between two dependent kernel starts
  double watts = 0;      ///< board or socket power, 0 = unknown
  /// Of the rated power, in (0, 1]: a limit that a system sets (System::Sets); 1: none.
  double power_share = 1;
  /// What matrix products and convolutions of fp32 tensors multiply in: TPUs round their operands to bf16.
  Precision fp32_products = Precision::fp32;
  FlopRate peak_at(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
  /// Are products of tensors in `p` made in `p`, and not in what those of fp32 are made in?
  bool multiplies_in(Precision p) const { return p != Precision::fp32 && peak_at(p).flops_per_second > 0; }
  /// Peak of matrix products and convolutions of tensors in `p`.
  FlopRate product_peak(Precision p) const { return peak_at(multiplies_in(p) ? p : fp32_products); }
  /// Rate of the fastest of them that was measured; the peak where nobody looked.
  FlopRate product_best(Precision p) const {
    const FlopRate best = best_product[static_cast<std::size_t>(multiplies_in(p) ? p : Precision::fp32)];
    return best.flops_per_second > 0 ? best : product_peak(p);
  }

  /// Throws InputError. A name in topologies/devices or a .json path.
  static Device load(const std::string& name_or_file, const Place& place = {});
  static Device from_json(const Json& document);
};

}  // namespace tandem::topologies

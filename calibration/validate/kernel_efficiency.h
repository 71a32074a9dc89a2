// SPDX-License-Identifier: Apache-2.0
#pragma once
// What measured kernels reach beside the roofline of their device (Williams, Waterman and Patterson 2009,
// "Roofline: an insightful visual performance model") and beside the stock curves. Values and pure functions:
// any thread may call them.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sim/cost/machine.h"
#include "topologies/devices/device.h"

namespace tandem::calibration {

/// Kernels of one kind and pass, or all of them: sums over one step of each graph that they were measured in.
struct KernelEfficiency {
  std::string kind, pass;  ///< "all", "" of all
  int64_t shapes = 0, launches = 0;
  double seconds = 0;  ///< each launch with what passes until the next kernel starts
  double flops = 0, bytes = 0;
  double roofline = 0;  ///< seconds of max(flops / peak, bytes / memory bandwidth); 0: no device is described
  double stock = 0;     ///< seconds by KernelCost on the described device; 0: none
};

/// The kernels of a profile in one precision.
struct EfficiencyTable {
  Precision precision = Precision::fp32;
  /// Described in topologies/devices under the model number that the profile names, as one worker has it: of
  /// processors one core, with the memory of all.
  std::optional<Device> device;
  std::string missing;  ///< why there is none
  std::string recipe;   ///< whose factors the stock curves have
  double between = 0;   ///< seconds of `all` that pass between kernels
  bool counted = true;  ///< the profile says how often steps launch each kernel; else each shape counts once
  std::vector<KernelEfficiency> rows;  ///< by kind, then pass
  KernelEfficiency all;
};

/// The table of `machine`, which was read in `precision`. Peaks of products are those of the precision, of
/// all other kernels that of fp32. Throws InputError where the profile holds no kernels.
EfficiencyTable kernel_efficiency(const MachineProfile& machine, Precision precision);

/// Names of the profiles of measured machines in calibration/profiles, sorted.
std::vector<std::string> measured_profiles();
/// The document of one of them, or of a file. InputError where it holds no measured kernels, naming those
/// that do.
Json load_measured_profile(const std::string& name_or_file);

/// What a table says as cells: heads, and of each row as many texts. Without a device the columns that need
/// one are left out. The first two are words, all others numbers.
std::vector<std::string> efficiency_heads(const EfficiencyTable& table);
std::vector<std::string> efficiency_cells(const EfficiencyTable& table, const KernelEfficiency& row);
/// In one sentence whose roofline and whose curves, or that there are none.
std::string efficiency_basis(const EfficiencyTable& table);

}  // namespace tandem::calibration

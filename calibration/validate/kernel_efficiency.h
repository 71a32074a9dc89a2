// SPDX-License-Identifier: Apache-2.0
#pragma once
// What measured kernels achieve, compared with the roofline of their device (Williams, Waterman and Patterson
// 2009, "Roofline: an insightful visual performance model") and with the stock curves. Values and pure
// functions: any thread may call them.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sim/cost/machine.h"
#include "topologies/devices/device.h"

namespace tandem::calibration {

/// Kernels of one kind and pass, or all of them: sums over one step of each graph they were measured in.
struct KernelEfficiency {
  std::string kind, pass;  ///< "all", "" for all
  int64_t shapes = 0, launches = 0;
  double seconds = 0;  ///< each launch including the time until the next kernel starts
  double flops = 0, bytes = 0;
  double roofline = 0;  ///< seconds of max(flops / peak, bytes / memory bandwidth); 0: no device description
  double stock = 0;     ///< seconds by KernelCost on the described device; 0: none
};

/// The kernels of a profile in one precision.
struct EfficiencyTable {
  Precision precision = Precision::fp32;
  /// The description in topologies/devices with the model number that the profile names, as one worker has
  /// it: one core of a processor, with all of the memory.
  std::optional<Device> device;
  std::string missing;  ///< why there is none
  std::string recipe;   ///< whose factors apply to the stock curves
  double between = 0;   ///< seconds of `all` between kernels
  bool counted = true;  ///< the profile has the launches per step of each kernel; else each shape counts once
  std::vector<KernelEfficiency> rows;  ///< by kind, then pass
  KernelEfficiency all;
};

/// The table of `machine`, measured in `precision`. Peaks of products are those of the precision, for other
/// kernels that of fp32. Throws InputError if the profile has no kernels.
EfficiencyTable kernel_efficiency(const MachineProfile& machine, Precision precision);

/// Names of the profiles of measured machines in calibration/profiles, sorted.
std::vector<std::string> measured_profiles();
/// The document of one of them, or of a file. Throws InputError if it has no measured kernels, naming those
/// that do.
Json load_measured_profile(const std::string& name_or_file);

/// The table as text cells: heads, and the cells of each row. Without a device the columns that need one are
/// left out. The first two are words, all others numbers.
std::vector<std::string> efficiency_heads(const EfficiencyTable& table);
std::vector<std::string> efficiency_cells(const EfficiencyTable& table, const KernelEfficiency& row);
/// One sentence that names the sources of roofline and curves, or says that there are none.
std::string efficiency_basis(const EfficiencyTable& table);

}  // namespace tandem::calibration

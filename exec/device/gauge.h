// SPDX-License-Identifier: Apache-2.0
#pragma once
// What says how much power a device draws: NVML of NVIDIA's GPUs, the energy counters of processors (RAPL).
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem::exec {

/// What a device says of itself at one time.
struct PowerReading {
  std::optional<double> watts;   ///< drawn now, or as the device averages it (NVML: over up to a second)
  std::optional<double> joules;  ///< of a counter that only grows, from any start
  double clock_mhz = 0, memory_mhz = 0, celsius = 0;  ///< 0: not known
  bool by_power = false, by_heat = false;             ///< what holds its clocks down
};

/// One device. One thread at a time may read it.
class PowerGauge {
 public:
  virtual ~PowerGauge() = default;
  /// Watts or joules, or both. Throws DeviceError with the reason.
  virtual PowerReading read() = 0;
  /// Among the devices of this machine: a PCI address, "package-0".
  virtual std::string name() const = 0;
};

struct PowerGauges {
  std::string source;                                ///< "NVML 580.159.04", "RAPL"
  std::vector<std::unique_ptr<PowerGauge>> devices;  ///< all that were asked for, or none
  std::string missing;                               ///< why none
};

/// Of the GPUs at these PCI addresses ("0000:3b:00.0"; equal ones once). Opens NVIDIA's libnvidia-ml.so.1, or
/// the file that TANDEM_NVML names; it is closed with the last gauge. A GPU divided by MIG has none, since
/// NVML reads whole GPUs; nor has a virtual one.
PowerGauges nvml_gauges(const std::vector<std::string>& addresses);

/// Of this machine's processor packages, by Linux's /sys/class/powercap or the folder that TANDEM_POWERCAP
/// names. The files are readable by root alone on most systems.
PowerGauges rapl_gauges();

}  // namespace tandem::exec

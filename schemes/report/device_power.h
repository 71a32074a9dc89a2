// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job's devices draw while they train, and JSON of it: member "power" of a report.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"

namespace tandem::schemes {

/// Of the accelerators alone, or of the packages of processors that compute: not of their hosts, fans or
/// power supplies. Joules are of all devices of the job.
struct DevicePower {
  double watts = 0;          ///< of a device, on average over the devices and a step
  double low = 0, high = 0;  ///< 90 % interval of `watts` where it is predicted; both 0 where it is measured
  double joules_per_step = 0;  ///< of the optimiser
  double joules_per_sample = 0;
  /// Parts of the joules: while a kind of kernel runs ("gemm"), "communication", "waiting" for other devices
  /// and "no kernel"; largest first, sum 1. Of a profile's graphs by their kernels' times and what such
  /// kernels draw on average; empty where nobody timed kernels.
  std::vector<std::pair<std::string, double>> parts = {};
  /// What a meter said of the steps that were timed.
  struct Readings {
    std::string source;    ///< "NVML 580.159.04", "RAPL"
    int64_t devices = 0;   ///< that were read; workers that share one count it once
    int64_t count = 0;     ///< of all devices
    bool counter = false;  ///< joules come from the device's energy counter; else from readings of watts
    double least = 0, most = 0;                  ///< watts of a device
    double clock_mhz = 0, memory_mhz = 0;        ///< means; 0, also below: not known
    double celsius = 0;                          ///< the highest
    double held_by_power = 0, held_by_heat = 0;  ///< shares of readings at which that held clocks down
    double seconds = 0;  ///< that reading a device took, on average, in a separate thread
    bool operator==(const Readings&) const = default;
  };
  std::optional<Readings> readings = {};
  bool operator==(const DevicePower&) const = default;
};

JsonWriter power_json(const DevicePower& power);
/// Throws InputError.
DevicePower read_power(const Json& document);

}  // namespace tandem::schemes

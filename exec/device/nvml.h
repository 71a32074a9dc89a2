// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is used of NVML, NVIDIA's library of management, by the names and numbers of its nvml.h (12.x and
// 13.x), so that the program builds without it. tests/exec/nvml_header.cpp compares them where nvml.h is
// found.

struct nvmlDevice_st;

namespace tandem::exec::nvml {

using Device = nvmlDevice_st*;

/// Functions of libnvidia-ml.so.1. They return a status; any thread may call them.
struct Functions {
  int (*init)() = nullptr;                                       ///< nvmlInit_v2
  int (*shutdown)() = nullptr;                                   ///< nvmlShutdown
  int (*driver)(char* text, unsigned size) = nullptr;            ///< nvmlSystemGetDriverVersion
  int (*device)(const char* address, Device* device) = nullptr;  ///< nvmlDeviceGetHandleByPciBusId_v2
  int (*power)(Device, unsigned* milliwatts) = nullptr;          ///< nvmlDeviceGetPowerUsage
  // Those below may be absent.
  const char* (*error)(int status) = nullptr;                   ///< nvmlErrorString
  int (*energy)(Device, unsigned long long* mj) = nullptr;      ///< nvmlDeviceGetTotalEnergyConsumption
  int (*clock)(Device, int which, unsigned* mhz) = nullptr;     ///< nvmlDeviceGetClockInfo
  int (*celsius)(Device, int sensor, unsigned* c) = nullptr;    ///< nvmlDeviceGetTemperature
  int (*mig)(Device, unsigned* now, unsigned* next) = nullptr;  ///< nvmlDeviceGetMigMode
  /// nvmlDeviceGetCurrentClocksEventReasons, before driver 535 nvmlDeviceGetCurrentClocksThrottleReasons
  int (*reasons)(Device, unsigned long long* bits) = nullptr;
};

inline constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kGpuIsLost = 15;  // status
inline constexpr int kSmClock = 1, kMemoryClock = 2, kGpuSensor = 0;
inline constexpr unsigned kMigOn = 1;
/// Bits of `reasons`. A slowdown by hardware comes with the next one's reason or the one after; without, it
/// is of too much power drawn at once.
inline constexpr unsigned long long kSoftwarePowerCap = 0x4, kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                                    kHardwareThermal = 0x40, kHardwarePowerBrake = 0x80;

}  // namespace tandem::exec::nvml

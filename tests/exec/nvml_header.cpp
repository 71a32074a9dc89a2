// SPDX-License-Identifier: Apache-2.0
// That NVIDIA's nvml.h declares what exec/device/nvml.h does. Compiled where it is found; nothing runs.
#include <nvml.h>

#include <type_traits>

#include "exec/device/nvml.h"

namespace tandem::tests {
namespace {

namespace nvml = tandem::exec::nvml;

/// A pointer to the library's function may be called as one of ours: an enumeration of C is passed as an int.
template <typename>
struct Plain;
template <typename R, typename... A>
struct Plain<R (*)(A...)> {
  template <typename T>
  using of =
      typename std::conditional_t<std::is_enum_v<T>, std::type_identity<int>, std::type_identity<T>>::type;
  using type = of<R> (*)(of<A>...);
};
template <typename Theirs, typename Ours>
constexpr bool agree(Theirs, Ours nvml::Functions::*) {
  return std::is_same_v<typename Plain<Theirs>::type, Ours>;
}

static_assert(sizeof(nvmlReturn_t) == sizeof(int) && sizeof(nvmlClockType_t) == sizeof(int));
static_assert(std::is_same_v<nvmlDevice_t, nvml::Device>);
static_assert(agree(&nvmlInit_v2, &nvml::Functions::init));
static_assert(agree(&nvmlShutdown, &nvml::Functions::shutdown));
static_assert(agree(&nvmlSystemGetDriverVersion, &nvml::Functions::driver));
static_assert(agree(&nvmlDeviceGetHandleByPciBusId_v2, &nvml::Functions::device));
static_assert(agree(&nvmlDeviceGetPowerUsage, &nvml::Functions::power));
static_assert(agree(&nvmlErrorString, &nvml::Functions::error));
static_assert(agree(&nvmlDeviceGetTotalEnergyConsumption, &nvml::Functions::energy));
static_assert(agree(&nvmlDeviceGetClockInfo, &nvml::Functions::clock));
static_assert(agree(&nvmlDeviceGetTemperature, &nvml::Functions::celsius));
static_assert(agree(&nvmlDeviceGetMigMode, &nvml::Functions::mig));
static_assert(agree(&nvmlDeviceGetCurrentClocksThrottleReasons, &nvml::Functions::reasons));
static_assert(NVML_SUCCESS == nvml::kSuccess && NVML_ERROR_NOT_SUPPORTED == nvml::kNotSupported &&
              NVML_ERROR_NOT_FOUND == nvml::kNotFound && NVML_ERROR_GPU_IS_LOST == nvml::kGpuIsLost);
static_assert(NVML_CLOCK_SM == nvml::kSmClock && NVML_CLOCK_MEM == nvml::kMemoryClock &&
              NVML_TEMPERATURE_GPU == nvml::kGpuSensor && NVML_DEVICE_MIG_ENABLE == nvml::kMigOn);
static_assert(nvmlClocksThrottleReasonSwPowerCap == nvml::kSoftwarePowerCap &&
              nvmlClocksThrottleReasonHwSlowdown == nvml::kHardwareSlowdown &&
              nvmlClocksThrottleReasonSwThermalSlowdown == nvml::kSoftwareThermal &&
              nvmlClocksThrottleReasonHwThermalSlowdown == nvml::kHardwareThermal &&
              nvmlClocksThrottleReasonHwPowerBrakeSlowdown == nvml::kHardwarePowerBrake);

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "exec/device/gauge.h"
#include "exec/device/nvml.h"

namespace tandem::exec {

namespace {

/// The library while it is in use.
class Nvml {
 public:
  /// Throws DeviceError.
  Nvml() {
    const char* named = std::getenv("TANDEM_NVML");
    const std::string file = named == nullptr ? "libnvidia-ml.so.1" : named;
    library_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      const char* why = dlerror();
      throw DeviceError(fmt::format("NVML cannot be opened: {}", why == nullptr ? file : why));
    }
    try {
      find(file);
      if (const int status = call.init(); status != nvml::kSuccess)
        throw DeviceError(fmt::format("NVML does not start: {}", words(status)));
    } catch (...) {
      dlclose(library_);
      throw;
    }
  }
  ~Nvml() {
    call.shutdown();
    dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string words(int status) const {
    const char* text = call.error == nullptr ? nullptr : call.error(status);
    return text == nullptr ? fmt::format("error {}", status) : fmt::format("{} (error {})", text, status);
  }
  std::string version() const {
    std::array<char, 96> text{};
    return call.driver(text.data(), text.size() - 1) == nvml::kSuccess ? fmt::format("NVML {}", text.data())
                                                                       : "NVML";
  }

  nvml::Functions call;

 private:
  template <typename F>
  void take(F& to, const char* name) {
    to = reinterpret_cast<F>(dlsym(library_, name));
  }
  template <typename F>
  void need(F& to, const char* name, const std::string& file) {
    take(to, name);
    if (to == nullptr)
      throw DeviceError(fmt::format("{} is no NVML that is known here: it has no {}", file, name));
  }
  void find(const std::string& file) {
    need(call.init, "nvmlInit_v2", file);
    need(call.shutdown, "nvmlShutdown", file);
    need(call.driver, "nvmlSystemGetDriverVersion", file);
    need(call.device, "nvmlDeviceGetHandleByPciBusId_v2", file);
    need(call.power, "nvmlDeviceGetPowerUsage", file);
    take(call.error, "nvmlErrorString");
    take(call.energy, "nvmlDeviceGetTotalEnergyConsumption");
    take(call.clock, "nvmlDeviceGetClockInfo");
    take(call.celsius, "nvmlDeviceGetTemperature");
    take(call.mig, "nvmlDeviceGetMigMode");
    take(call.reasons, "nvmlDeviceGetCurrentClocksEventReasons");
    if (call.reasons == nullptr) take(call.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }

  void* library_ = nullptr;
};

class NvmlGauge : public PowerGauge {
 public:
  /// Throws DeviceError where the GPU says no power.
  NvmlGauge(std::shared_ptr<const Nvml> nvml, std::string address)
      : nvml_(std::move(nvml)), address_(std::move(address)) {
    if (const int status = nvml_->call.device(address_.c_str(), &device_); status != nvml::kSuccess)
      throw DeviceError(fmt::format("GPU {} is not known to NVML: {}", address_, nvml_->words(status)));
    unsigned now = 0, next = 0;
    if (nvml_->call.mig != nullptr && nvml_->call.mig(device_, &now, &next) == nvml::kSuccess &&
        now == nvml::kMigOn)
      throw DeviceError(
          fmt::format("GPU {} is divided by MIG, and NVML reads the power of whole GPUs", address_));
    read();
  }

  PowerReading read() override {
    const nvml::Functions& call = nvml_->call;
    PowerReading out;
    unsigned value = 0;
    unsigned long long wide = 0;
    const int power = call.power(device_, &value);
    if (power == nvml::kSuccess) out.watts = 1e-3 * value;
    if (call.energy != nullptr && call.energy(device_, &wide) == nvml::kSuccess)
      out.joules = 1e-3 * static_cast<double>(wide);
    if (!out.watts && !out.joules)
      throw DeviceError(fmt::format("GPU {} does not say its power: {}", address_, nvml_->words(power)));
    if (call.clock != nullptr) {
      if (call.clock(device_, nvml::kSmClock, &value) == nvml::kSuccess) out.clock_mhz = value;
      if (call.clock(device_, nvml::kMemoryClock, &value) == nvml::kSuccess) out.memory_mhz = value;
    }
    if (call.celsius != nullptr && call.celsius(device_, nvml::kGpuSensor, &value) == nvml::kSuccess)
      out.celsius = value;
    if (call.reasons != nullptr && call.reasons(device_, &wide) == nvml::kSuccess) {
      out.by_heat = (wide & (nvml::kSoftwareThermal | nvml::kHardwareThermal)) != 0;
      out.by_power = (wide & (nvml::kSoftwarePowerCap | nvml::kHardwarePowerBrake)) != 0 ||
                     ((wide & nvml::kHardwareSlowdown) != 0 && (wide & nvml::kHardwareThermal) == 0);
    }
    return out;
  }

  std::string name() const override { return address_; }

 private:
  const std::shared_ptr<const Nvml> nvml_;
  const std::string address_;
  nvml::Device device_ = nullptr;
};

}  // namespace

PowerGauges nvml_gauges(const std::vector<std::string>& addresses) {
  PowerGauges out;
  try {
    const auto nvml = std::make_shared<const Nvml>();
    out.source = nvml->version();
    for (const std::string& address : addresses) {
      const bool known = std::any_of(out.devices.begin(), out.devices.end(),
                                     [&](const auto& gauge) { return gauge->name() == address; });
      if (!known) out.devices.push_back(std::make_unique<NvmlGauge>(nvml, address));
    }
  } catch (const DeviceError& why) {
    out.devices.clear();
    out.missing = why.what();
  }
  return out;
}

}  // namespace tandem::exec

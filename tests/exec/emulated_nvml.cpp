// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libnvidia-ml.so.1 without GPUs, by the names of its nvml.h: TANDEM_NVML names it.
#include "tests/exec/emulated_nvml.h"

#include <strings.h>

#include <cstring>

#include "exec/device/nvml.h"

struct nvmlDevice_st {
  tandem::tests::EmulatedGpu* gpu;
};

namespace {

namespace nvml = tandem::exec::nvml;

tandem::tests::EmulatedNvml& state() {
  static tandem::tests::EmulatedNvml all;
  return all;
}

nvmlDevice_st* devices() {
  static nvmlDevice_st all[] = {{&state().gpus[0]}, {&state().gpus[1]}};
  return all;
}

/// A call of the library; notes how many threads are in one.
struct Inside {
  Inside() {
    const int now = ++state().inside;
    int most = state().most_inside;
    while (now > most && !state().most_inside.compare_exchange_weak(most, now)) {
    }
  }
  ~Inside() { --state().inside; }
};

template <typename T>
int say(int status, T value, T* to) {
  if (status == nvml::kSuccess) *to = value;
  return status;
}

}  // namespace

extern "C" {
#define EXPORTED __attribute__((visibility("default")))

EXPORTED tandem::tests::EmulatedNvml* emulated_nvml() { return &state(); }

EXPORTED int nvmlInit_v2() {
  if (state().init_status == nvml::kSuccess) ++state().open;
  return state().init_status;
}
EXPORTED int nvmlShutdown() {
  --state().open;
  return nvml::kSuccess;
}
EXPORTED int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "580.159.04", size);
  return nvml::kSuccess;
}
EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char* address, nvmlDevice_st** device) {
  const char* const addresses[] = {tandem::tests::kFirstGpu, tandem::tests::kSecondGpu};
  for (int i = 0; i < 2; ++i) {
    if (strcasecmp(address, addresses[i]) != 0) continue;
    *device = devices() + i;
    return nvml::kSuccess;
  }
  return nvml::kNotFound;
}
EXPORTED int nvmlDeviceGetPowerUsage(nvmlDevice_st* d, unsigned* to) {
  const Inside inside;
  ++state().reads;
  return say(d->gpu->power_status, d->gpu->milliwatts.load(), to);
}

#ifndef TANDEM_OLD_NVML
EXPORTED const char* nvmlErrorString(int status) {
  return status == nvml::kNotSupported ? "Not Supported"
         : status == nvml::kGpuIsLost  ? "GPU is lost"
                                       : "Unknown Error";
}
EXPORTED int nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_st* d, unsigned long long* to) {
  const Inside inside;
  return say(d->gpu->energy_status, d->gpu->energy += d->gpu->grows, to);
}
EXPORTED int nvmlDeviceGetMigMode(nvmlDevice_st* d, unsigned* now, unsigned* next) {
  *next = 0;
  return say(d->gpu->other_status, d->gpu->mig.load(), now);
}
EXPORTED int nvmlDeviceGetClockInfo(nvmlDevice_st* d, int which, unsigned* to) {
  return say(d->gpu->other_status,
             which == nvml::kSmClock ? d->gpu->sm_mhz.load() : d->gpu->memory_mhz.load(), to);
}
EXPORTED int nvmlDeviceGetTemperature(nvmlDevice_st* d, int, unsigned* to) {
  return say(d->gpu->other_status, d->gpu->celsius.load(), to);
}
EXPORTED int nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_st* d, unsigned long long* to) {
  return say(d->gpu->other_status, d->gpu->reasons.load(), to);
}
#endif
}

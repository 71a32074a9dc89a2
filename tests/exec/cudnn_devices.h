// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices that are not here, as cuDNN is told of them.
#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "exec/device/cuda/cudnn_graph.h"

namespace tandem::tests {

struct Chip {
  const char* name;
  int compute, processors, shared_bytes;  ///< shared memory that a block may ask for
  int64_t memory_bytes, l2_bytes;
};
/// Shared memory: CUDA C++ Programming Guide, technical specifications per compute capability; the rest: the
/// boards' datasheets.
inline constexpr Chip kChips[] = {{"A100", 80, 108, 166912, 42949672960, 41943040},
                                  {"RTX 4090", 89, 128, 101376, 25769803776, 75497472},
                                  {"H100", 90, 132, 232448, 85899345920, 52428800},
                                  {"B200", 100, 148, 232448, 193273528320, 132644864}};

/// Null when this version of cuDNN reads such a description otherwise.
inline cudnnBackendDescriptor_t device(const Chip& chip) {
  const std::string text = fmt::format(
      R"({{"deviceVer":{},"maxSharedMemoryPerBlockOptin":{},"driverVer":13000,"cudaDeviceId":0,
      "maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
      "multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,
      "reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
      "maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1400000,
      "memClockRateKHz":1500000,"totalGlobalMem":{},"deviceName":"{}","l2CacheSize":{}}})",
      chip.compute * 10, chip.shared_bytes, chip.processors, chip.memory_bytes, chip.name, chip.l2_bytes);
  cudnnBackendDescriptor_t out = nullptr;
  if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &out) != CUDNN_STATUS_SUCCESS ||
      cudnnBackendSetAttribute(out, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               static_cast<int64_t>(text.size()), text.data()) != CUDNN_STATUS_SUCCESS ||
      cudnnBackendFinalize(out) != CUDNN_STATUS_SUCCESS)
    return nullptr;
  return out;
}

/// Plans ask for a driver's functions before they can be made; the toolkit's library to link with has their
/// names.
inline bool has_driver() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr ||
         dlopen(TANDEM_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) != nullptr;
}

}  // namespace tandem::tests

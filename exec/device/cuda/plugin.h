// SPDX-License-Identifier: Apache-2.0
#pragma once
// The door between the program and libtandem_cuda.so, which alone knows CUDA and is opened at run time.
//
#include <cstdint>
#include <string>
#include <vector>

#include "exec/device/backend.h"

namespace tandem::exec {

/// One GPU as the driver shows it.
struct Gpu {
  std::string name, bus;  ///< "NVIDIA H200", PCI address
  int compute = 0;        ///< compute capability, 90 for 9.0
  int processors = 0;     ///< streaming multiprocessors
  int64_t memory_bytes = 0, l2_bytes = 0;
  double clock_hz = 0, memory_clock_hz = 0;  ///< highest
  int numa = -1;                             ///< node of its PCIe slot, -1 unknown
  std::vector<bool> peers;                   ///< [GPU]: its memory can be reached directly
};

/// A library that the plugin uses: where it was found, or why not.
struct CudaLibrary {
  std::string name, path;
  std::string problem;  ///< empty when it is there
  std::string install;  ///< how to get it
};

/// What the plugin's only exported function returns. `abi` stays first for ever; the rest may be read only
/// when it equals the caller's own (TANDEM_CUDA_ABI: a hash of the headers that both sides share, and the
/// compiler).
struct CudaPlugin {
  const char* abi = nullptr;
  const Backend* backend = nullptr;
  std::vector<Gpu> (*gpus)() = nullptr;  ///< throws DeviceError
  std::string (*versions)() = nullptr;   ///< driver, runtime, cuDNN, cuBLASLt
  int64_t (*kernels)() = nullptr;        ///< own ones, which are loaded before GPUs join a group
};
using CudaPluginEntry = const CudaPlugin* (*)();
inline constexpr const char* kCudaPluginEntry = "tandem_cuda_plugin";

/// What became of the search for the plugin; made once per process.
struct CudaFindings {
  const CudaPlugin* plugin = nullptr;  ///< null: see `missing`
  std::string path;                    ///< of the plugin, where one was found
  std::vector<CudaLibrary> libraries;  ///< that it needs, in loading order; empty when it is absent
  std::string missing;                 ///< plugin absent, library absent, no driver or no device; or ""
};
/// TANDEM_CUDA_PLUGIN names the plugin's file (and no other is tried); else it is looked for next to the
/// program. Libraries come from TANDEM_NVIDIA_WHEELS (<site-packages>/nvidia) where it holds them, else from
/// the loader's path or /usr/local/cuda. Slow the first time (libraries of several 100 MB); throws nothing.
const CudaFindings& cuda_findings();
/// The same search once more; for tests of its outcomes.
CudaFindings find_cuda();

}  // namespace tandem::exec

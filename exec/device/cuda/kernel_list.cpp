// SPDX-License-Identifier: Apache-2.0
// The runtime loads a kernel when it is first launched, which may wait until the device is idle: for ever,
// where a collective spins there whose other members wait for this launch (CUDA C++ Programming Guide, Lazy
// Loading; NCCL's guide, CUDA stream semantics). So all are loaded before GPUs join a group. nvcc has each
// .cu file hand its kernels to __cudaRegisterFunction when the library is opened; the linker (--wrap,
// cmake/cuda.cmake) brings these calls here.
#include <cuda_runtime_api.h>

#include <mutex>
#include <set>
#include <vector>

#include "exec/device/cuda/session.h"

namespace tandem::exec::cuda {

namespace {

std::vector<const void*>& kernels() {
  static std::vector<const void*> all;
  return all;
}

}  // namespace

int64_t kernel_count() { return static_cast<int64_t>(kernels().size()); }

void load_kernels(int device) {
  static std::mutex mutex;
  static std::set<int> loaded;
  const std::lock_guard guard(mutex);
  if (!loaded.insert(device).second) return;
  for (const void* kernel : kernels()) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
  }
}

}  // namespace tandem::exec::cuda

// The names are the runtime's and the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void __real___cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit,
                                   uint3* thread, uint3* block, dim3* block_size, dim3* grid_size, int* warp);
void __wrap___cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit,
                                   uint3* thread, uint3* block, dim3* block_size, dim3* grid_size,
                                   int* warp) {
  tandem::exec::cuda::kernels().push_back(host);
  __real___cudaRegisterFunction(module, host, device, name, limit, thread, block, block_size, grid_size,
                                warp);
}
}
// NOLINTEND(bugprone-reserved-identifier)

// SPDX-License-Identifier: Apache-2.0
// A plugin of another version of tandem, which the loader must refuse without reading on.
#include "exec/device/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) const tandem::exec::CudaPlugin* tandem_cuda_plugin() {
  static const tandem::exec::CudaPlugin plugin{"0-of-another-version", nullptr, nullptr, nullptr};
  return &plugin;
}

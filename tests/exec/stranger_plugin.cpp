// A plugin of another version of tandem, which the loader must refuse without reading on.
#include "exec/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) const tandem::CudaPlugin* tandem_cuda_plugin() {
  static const tandem::CudaPlugin plugin{"0-of-another-version", nullptr, nullptr, nullptr};
  return &plugin;
}

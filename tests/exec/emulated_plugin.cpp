// SPDX-License-Identifier: Apache-2.0
// The emulated device behind the door of the CUDA plugin: with TANDEM_CUDA_PLUGIN naming it, the program runs
// on "cuda" without a GPU. For rehearsals of what is done on a machine with GPUs.
#include "exec/device/cuda/plugin.h"
#include "tests/exec/deferred.h"
#include "tests/exec/emulated_backend.h"

namespace tandem::exec::cpu {
void set_threads(int) {}  // the emulated device has none
}  // namespace tandem::exec::cpu

namespace tandem::tests {
namespace {

std::vector<Gpu> gpus() {
  Gpu g;
  g.name = "emulated";
  g.bus = "0000:00:00.0";
  g.compute = 90;
  g.processors = 1;
  g.memory_bytes = int64_t{1} << 30;
  g.clock_hz = g.memory_clock_hz = 1e9;
  g.peers = {true};
  return {g};
}

const Backend& backend() {
  static const Backend b = [] {
    Backend out = emulated_backend();
    out.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
      DeviceOptions of = options;
      if (of.precision == Precision::tf32) of.precision = Precision::fp32;
      return std::make_unique<DeferredDevice>(emulated_backend().open(of));
    };
    out.supports = [](const Call&, Precision) { return true; };
    out.group = [](const GroupSetup&) { return std::unique_ptr<DeviceGroup>(); };
    out.group_id = [](PeerRoute) { return std::string(); };
    out.unit = [](uint32_t) { return std::string("emulated"); };
    out.reaches = [](uint32_t, uint32_t) { return true; };
    out.units = []() -> int64_t { return 1; };
    out.memory = [](uint32_t) { return gpus()[0].memory_bytes; };
    return out;
  }();
  return b;
}

}  // namespace
}  // namespace tandem::tests

extern "C" __attribute__((visibility("default"))) const tandem::exec::CudaPlugin* tandem_cuda_plugin() {
  static const tandem::exec::CudaPlugin plugin{
      TANDEM_CUDA_ABI, &tandem::tests::backend(), tandem::tests::gpus,
      [] { return std::string("no CUDA: an emulated device"); }, []() -> int64_t { return 0; }};
  return &plugin;
}

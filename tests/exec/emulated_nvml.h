// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the emulated libnvidia-ml says, set by tests while it is open. It has two GPUs, at kFirstGpu and
// kSecondGpu.
#include <array>
#include <atomic>

namespace tandem::tests {

inline constexpr const char *kFirstGpu = "0000:3b:00.0", *kSecondGpu = "0000:d8:00.0";

struct EmulatedGpu {
  std::atomic<unsigned> milliwatts{400000}, sm_mhz{1500}, memory_mhz{2600}, celsius{50}, mig{0};
  std::atomic<unsigned long long> reasons{0};
  /// Of each reading of the counter, that many millijoules more.
  std::atomic<unsigned long long> energy{1000}, grows{40000};
  std::atomic<int> power_status{0}, energy_status{0}, other_status{0};
};
struct EmulatedNvml {
  std::array<EmulatedGpu, 2> gpus;
  std::atomic<int> init_status{0}, open{0}, reads{0};
  std::atomic<int> inside{0}, most_inside{0};  ///< threads in a call at once
};
/// The library's function of this name gives its EmulatedNvml.
inline constexpr const char* kEmulatedNvml = "emulated_nvml";

}  // namespace tandem::tests

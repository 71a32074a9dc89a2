// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trying a library's ways on their own memory. Internal to the plugin.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

namespace tandem::exec::cuda {

/// Held by who tries: one thread of the process at a time, so that trials do not disturb each other.
std::mutex& one_trial();

/// There is no memory for a trial.
struct NoRoom {};

/// Separate memory for a trial: numbers of 0.008 to 2 in any format of 2 or 4 bytes, since zeros run faster
/// than data. 256-byte aligned; of 256 bytes at least. Throws NoRoom.
/// For one thread at a time.
class TrialMemory {
 public:
  explicit TrialMemory(std::size_t bytes, bool filled = true);
  static TrialMemory floats(int64_t elements) {
    return TrialMemory(static_cast<std::size_t>(elements) * sizeof(float));
  }
  ~TrialMemory() { cudaFree(memory_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }
  float* at(std::size_t bytes = 0) const {
    return reinterpret_cast<float*>(static_cast<char*>(memory_) + bytes);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void fill();
  void* memory_ = nullptr;
  std::size_t bytes_;
};

/// Of one run in a row of five, in milliseconds; nothing when it fails. `run` enqueues on the stream and says
/// whether that was taken. Copies within `busy`, of that many bytes, keep the device at work until the host
/// has issued all.
std::optional<float> time_of(const std::function<bool()>& run, cudaStream_t stream, void* busy,
                             std::size_t bytes);

/// Of several ways, best estimate first: the fastest, but an earlier one where a later one gains less than 3
/// %, so that noise chooses no other sums. None where all fail. One that stands alone is run as well: whether
/// it runs, and so that nothing is left to load at its first launch.
std::optional<std::size_t> fastest_of(std::size_t ways, const std::function<bool(std::size_t way)>& run,
                                      cudaStream_t stream, void* busy, std::size_t bytes);

/// Does it run at all? Once, to its end. What is loaded at the first launch is loaded then.
bool runs(const std::function<bool()>& run, cudaStream_t stream);

}  // namespace tandem::exec::cuda

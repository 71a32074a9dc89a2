// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/trial.h"

#include <algorithm>
#include <vector>

#include "exec/device/cuda/session.h"

namespace tandem::exec::cuda {

std::mutex& one_trial() {
  static std::mutex mutex;
  return mutex;
}

TrialMemory::TrialMemory(std::size_t bytes, bool filled) : bytes_(std::max<std::size_t>(bytes, 256)) {
  if (cudaMalloc(&memory_, bytes_) != cudaSuccess) {
    cudaGetLastError();
    throw NoRoom{};
  }
  if (filled) fill();
}

/// A piece from the host, then ever larger copies of what is there.
void TrialMemory::fill() {
  std::vector<uint16_t> piece(std::min<std::size_t>(bytes_, 1 << 20) / 2);
  uint32_t state = 1;
  for (uint16_t& half : piece) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
    half = static_cast<uint16_t>(0x3C00U | (state >> 16 & 0x83FFU));
  }
  cudaMemcpy(memory_, piece.data(), piece.size() * 2, cudaMemcpyHostToDevice);
  auto* all = static_cast<char*>(memory_);
  for (std::size_t done = piece.size() * 2; done < bytes_; done *= 2)
    cudaMemcpy(all + done, all, std::min(done, bytes_ - done), cudaMemcpyDeviceToDevice);
}

bool runs(const std::function<bool()>& run, cudaStream_t stream) {
  // cudaMemcpy within a device may return before the copy has ended.
  const bool works =
      cudaDeviceSynchronize() == cudaSuccess && run() && cudaStreamSynchronize(stream) == cudaSuccess;
  if (!works) cudaGetLastError();
  return works;
}

std::optional<float> time_of(const std::function<bool()>& run, cudaStream_t stream, void* busy,
                             std::size_t bytes) {
  constexpr int kRow = 5;
  if (!runs(run, stream)) return std::nullopt;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "make an event");
  check(cudaEventCreate(&end), "make an event");
  std::optional<float> best;
  const std::size_t half = std::min<std::size_t>(bytes / 2, 64UL << 20);
  bool works = true;
  for (int turn = 0; turn < 2 && works; ++turn) {
    for (int i = 0; i < 4; ++i)
      cudaMemcpyAsync(static_cast<char*>(busy) + half, busy, half, cudaMemcpyDeviceToDevice, stream);
    cudaEventRecord(begin, stream);
    for (int i = 0; i < kRow && works; ++i) works = run();
    cudaEventRecord(end, stream);
    float ms = 0;
    works = works && cudaEventSynchronize(end) == cudaSuccess &&
            cudaEventElapsedTime(&ms, begin, end) == cudaSuccess;
    if (works) best = std::min(best.value_or(ms), ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (works) return best;
  cudaGetLastError();
  return std::nullopt;
}

std::optional<std::size_t> fastest_of(std::size_t ways, const std::function<bool(std::size_t way)>& run,
                                      cudaStream_t stream, void* busy, std::size_t bytes) {
  constexpr float kGain = 0.97F;
  std::optional<std::size_t> best;
  float least = 0;
  for (std::size_t i = 0; i < ways; ++i) {
    const auto once = [&] { return run(i); };
    if (ways == 1) return runs(once, stream) ? std::optional<std::size_t>(0) : std::nullopt;
    const std::optional<float> ms = time_of(once, stream, busy, bytes);
    if (!ms || (best && *ms > kGain * least)) continue;
    least = *ms;
    best = i;
  }
  return best;
}

}  // namespace tandem::exec::cuda

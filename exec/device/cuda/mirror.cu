// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/mirror.h"

#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

template <typename Y, typename T>
__global__ void swap_weights_kernel(WeightSwap s, int64_t count, Y* to, const T* from) {
  const int64_t i = global_index();
  if (i >= count) return;
  const int64_t o = i % s.outer, t = i / s.outer % s.taps, c = i / s.outer / s.taps % s.inner,
                g = i / s.outer / s.taps / s.inner;
  store(to + i, load(from + ((g * s.outer + o) * s.taps + t) * s.inner + c));
}

template <typename Y, typename T>
void swap_of(void* to, const void* from, const WeightSwap& s, Stream stream) {
  launch(swap_weights_kernel<Y, T>, blocks_for(s.count()), kThreads, stream, s, s.count(),
         static_cast<Y*>(to), static_cast<const T*>(from));
}

}  // namespace

void swap_weights(void* to, Precision to_format, const void* from, Precision from_format, const WeightSwap& s,
                  Stream stream) {
  if (to_format == Precision::fp32 && from_format == Precision::bf16)
    return swap_of<float, Bf16>(to, from, s, stream);
  if (to_format == Precision::fp32 && from_format == Precision::fp16)
    return swap_of<float, Fp16>(to, from, s, stream);
  TANDEM_CHECK(to_format == from_format);
  if (to_format == Precision::bf16) return swap_of<Bf16, Bf16>(to, from, s, stream);
  if (to_format == Precision::fp16) return swap_of<Fp16, Fp16>(to, from, s, stream);
  swap_of<float, float>(to, from, s, stream);
}

}  // namespace tandem::exec::cuda

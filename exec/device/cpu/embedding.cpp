// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/device/cpu/kernel.h"

namespace tandem::exec::cpu {

namespace {

Prepared embedding(const Call& c, int) {
  const int64_t tokens = c.shape[0], width = c.shape[1];
  return [=](std::span<float* const> o, const IterationState&) {
    const auto* ids = reinterpret_cast<const int32_t*>(o[2]);
    for (int64_t t = 0; t < tokens; ++t) std::copy_n(o[1] + ids[t] * width, width, o[0] + t * width);
  };
}

Prepared embedding_backward(const Call& c, int) {
  const int64_t tokens = c.shape[0], width = c.shape[1], vocabulary = c.shape[2];
  const bool adds = c.shape[3] != 0;
  return [=](std::span<float* const> o, const IterationState&) {
    const auto* ids = reinterpret_cast<const int32_t*>(o[2]);
    if (!adds) std::fill_n(o[0], vocabulary * width, 0.0F);
    for (int64_t t = 0; t < tokens; ++t) accumulate(o[0] + ids[t] * width, o[1] + t * width, width);
  };
}

}  // namespace

void add_embedding(Table& t) {
  set(t, Function::embedding, embedding);
  set(t, Function::embedding_backward, embedding_backward);
}

}  // namespace tandem::exec::cpu

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/device/cpu/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

Prepared embedding(const Call& c, int) {
  const int64_t tokens = c.shape[0], width = c.shape[1], vocabulary = c.shape[2], first = c.shape[3];
  return [=](std::span<float* const> o, const IterationState&) {
    const auto* ids = reinterpret_cast<const int32_t*>(o[2]);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t row = ids[t] - first;
      if (row < 0 || row >= vocabulary)
        std::fill_n(o[0] + t * width, width, 0.0F);
      else
        std::copy_n(o[1] + row * width, width, o[0] + t * width);
    }
  };
}

Prepared embedding_backward(const Call& c, int) {
  const int64_t tokens = c.shape[0], width = c.shape[1], vocabulary = c.shape[2];
  const bool adds = c.shape[3] != 0;
  const int64_t first = c.shape[4];
  return [=](std::span<float* const> o, const IterationState&) {
    const auto* ids = reinterpret_cast<const int32_t*>(o[2]);
    if (!adds) std::fill_n(o[0], vocabulary * width, 0.0F);
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t row = ids[t] - first;
      if (row >= 0 && row < vocabulary) accumulate(o[0] + row * width, o[1] + t * width, width);
    }
  };
}

Prepared restore(const Call& c, int) {
  const StoredShape s(c.shape);
  return [=](std::span<float* const> o, const IterationState&) {
    const auto* bytes = reinterpret_cast<const int8_t*>(o[1] + s.floats());
    for (int64_t i = 0; i < s.elements; ++i) o[0][i] = s.value(o[1], bytes, i);
  };
}

}  // namespace

void add_embedding(Table& t) {
  set(t, Function::embedding, embedding);
  set(t, Function::embedding_backward, embedding_backward);
  set(t, Function::restore, restore);
}

}  // namespace tandem::exec::cpu

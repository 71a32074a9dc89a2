// SPDX-License-Identifier: Apache-2.0
// Positions of queries and keys by turning them.
#include <cmath>

#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

/// Cosine and sine of t / 10000^(2 i / size), once for all samples and heads: angles of long sequences want
/// double precision, of which gaming boards do 1/64 as much.
__global__ void turns_kernel(int64_t count, int64_t size, int64_t first, float sign, float* turns) {
  const int64_t index = global_index(), half = size / 2;
  if (index >= count) return;
  const double angle = static_cast<double>(first + index / half) *
                       pow(10000.0, -2.0 * static_cast<double>(index % half) / static_cast<double>(size));
  turns[2 * index] = static_cast<float>(cos(angle));
  turns[2 * index + 1] = sign * static_cast<float>(sin(angle));
}

/// Pairs (i, i + size / 2) of each vector at time t turn by t / 10000^(2 i / size) (Su et al. 2021,
/// section 3.4.2, in the order of GPT-NeoX).
template <typename T>
__global__ void rotary_kernel(int64_t count, int64_t time, int64_t vectors, int64_t size, int64_t row,
                              int64_t offset, int64_t rows, const float* turns, T* y, const T* x) {
  const int64_t index = global_index(), half = (size + 1) / 2;
  if (index >= count) return;
  const int64_t i = index % half, vector = index / half % vectors, step = index / half / vectors;
  const int64_t at = (step / time * rows + step % time) * row + offset + vector * size;
  if (i == size / 2) {  // the middle of an odd size stays
    store(y + at + size - 1, load(x + at + size - 1));
    return;
  }
  const float* turn = turns + 2 * (step % time * (size / 2) + i);
  const float cosine = turn[0], sine = turn[1];
  const float a = load(x + at + i), z = load(x + at + i + size / 2);
  store(y + at + i, a * cosine - z * sine);
  store(y + at + i + size / 2, a * sine + z * cosine);
}

template <typename T>
Prepared rotary(const Call& c) {
  const int64_t batch = c.shape[0], time = c.shape[1], vectors = c.shape[2], size = c.shape[3],
                row = c.shape[4], offset = c.shape[5], count = batch * time * vectors * ((size + 1) / 2),
                rows = c.shape.size() > 7 ? c.shape[7] : time, first = c.shape.size() > 7 ? c.shape[8] : 0;
  const float sign = c.shape[6] != 0 ? -1.0F : 1.0F;
  const int64_t turns = time * (size / 2);
  return {[=](const Launch& l) {
            launch(turns_kernel, blocks_for(turns), kThreads, l.stream, turns, size, first, sign, l.scratch);
            launch(rotary_kernel<T>, blocks_for(count), kThreads, l.stream, count, time, vectors, size, row,
                   offset, rows, l.scratch, operand<T>(l, 0), operand<T>(l, 1));
          },
          2 * turns};
}

}  // namespace

void add_rotary(Table& t) {
  set(t, Function::rotary, rotary<float>, rotary<Bf16>, rotary<Fp16>, half_operands<0, 1>);
}

}  // namespace tandem::exec::cuda

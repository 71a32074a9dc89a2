// SPDX-License-Identifier: Apache-2.0
// What changes an attention's result by its log sums: more keys that join, and sinks.
#include <cmath>

#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

/// log(exp(a) + exp(b)).
__device__ float log_of_both(float a, float b) {
  const float top = fmaxf(a, b);
  return top + logf(expf(a - top) + expf(b - top));
}

/// A warp a row.
template <typename T>
__global__ void merge_kernel(MergeShape m, T* out, float* log_sums, const T* block, const float* of_block) {
  const int64_t r = global_index() / kWarp;
  if (r >= m.rows()) return;
  const int64_t i = r % m.query, h = r / m.query % m.heads, b = r / m.query / m.heads;
  const float sum = log_sums[m.log_sum(b, h, i)], more = of_block[r], all = log_of_both(sum, more);
  const float before = expf(sum - all), now = expf(more - all);
  T* to = out + m.out(b, h, i);
  const T* from = block + m.block(b, h, i);
  for (int64_t d = threadIdx.x % kWarp; d < m.size; d += kWarp)
    store(to + d, before * load(to + d) + now * load(from + d));
  const float same = __shfl_xor_sync(0xffffffffU, all, 1);  // when all lanes have read the sum so far
  if (threadIdx.x % kWarp == 0) log_sums[m.log_sum(b, h, i)] = same;
}

template <typename T>
Prepared attention_merge(const Call& c) {
  const MergeShape m(c);
  return {[=](const Launch& l) {
    launch(merge_kernel<T>, blocks_for(m.rows() * kWarp), kThreads, l.stream, m, operand<T>(l, 0),
           l.operands[1], operand<T>(l, 2), l.operands[3]);
  }};
}

/// A warp a row.
template <typename T>
__global__ void sinks_kernel(SinksShape s, T* out, float* log_sums, const float* sinks) {
  const int64_t r = global_index() / kWarp;
  if (r >= s.rows()) return;
  const float sum = log_sums[r], all = log_of_both(sum, sinks[s.head(r)]), share = expf(sum - all);
  T* to = out + s.out(r);
  for (int64_t d = threadIdx.x % kWarp; d < s.size; d += kWarp) store(to + d, share * load(to + d));
  const float same = __shfl_xor_sync(0xffffffffU, all, 1);  // when all lanes have read the sum so far
  if (threadIdx.x % kWarp == 0) log_sums[r] = same;
}

/// Of each row, {sample and query, head}: the gradient of its sink. A warp a row.
template <typename T>
__global__ void sink_gradients_kernel(SinksShape s, float* gradients, const float* sinks,
                                      const float* log_sums, const T* out, const T* dout) {
  const int64_t r = global_index() / kWarp;
  if (r >= s.rows()) return;
  const T *o = out + s.out(r), *d_out = dout + s.out(r);
  float dot = 0;
  for (int64_t d = threadIdx.x % kWarp; d < s.size; d += kWarp) dot += load(o + d) * load(d_out + d);
  for (int d = kWarp / 2; d > 0; d /= 2) dot += __shfl_xor_sync(0xffffffffU, dot, d);
  if (threadIdx.x % kWarp == 0) gradients[s.out(r) / s.size] = -expf(sinks[s.head(r)] - log_sums[r]) * dot;
}

template <typename T>
Prepared sinks(const Call& c) {
  const SinksShape s(c);
  return {[=](const Launch& l) {
    launch(sinks_kernel<T>, blocks_for(s.rows() * kWarp), kThreads, l.stream, s, operand<T>(l, 0),
           l.operands[1], l.operands[2]);
  }};
}

template <typename T>
Prepared sinks_backward(const Call& c) {
  const SinksShape s(c);
  const Prepared sum = prepare_column_sum(s.batch * s.query, s.heads);
  const int64_t rows = (s.rows() + 63) / 64 * 64;
  return {[=](const Launch& l) {
            launch(sink_gradients_kernel<T>, blocks_for(s.rows() * kWarp), kThreads, l.stream, s, l.scratch,
                   l.operands[1], l.operands[2], operand<T>(l, 3), operand<T>(l, 4));
            run_step(sum, {l.operands[0], l.scratch}, l, l.scratch + rows);
          },
          rows + sum.scratch};
}

}  // namespace

void add_log_sums(Table& t) {
  set(t, Function::attention_merge, attention_merge<float>, attention_merge<Bf16>, attention_merge<Fp16>,
      half_operands<0, 2>);
  set(t, Function::attention_sinks, sinks<float>, sinks<Bf16>, sinks<Fp16>, half_operands<0>);
  set(t, Function::attention_sinks_backward, sinks_backward<float>, sinks_backward<Bf16>,
      sinks_backward<Fp16>, half_operands<3, 4>);
}

}  // namespace tandem::exec::cuda

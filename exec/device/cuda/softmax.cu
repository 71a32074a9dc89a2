// SPDX-License-Identifier: Apache-2.0
// Softmax, cross-entropy and mean squared error: one block a row; losses are summed in a fixed order.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

/// The largest of a row and the sum of exp(x - largest), in one pass over it.
template <typename T>
__device__ void row_softmax(const T* x, int64_t n, float& top, float& sum) {
  float most = -3.402823466e38F, part[1] = {0};
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = load(x + i);
    if (v > most) {
      part[0] *= expf(most - v);
      most = v;
    }
    part[0] += expf(v - most);
  }
  top = block_max(most);
  part[0] *= expf(most - top);  // threads without an element hold 0
  block_sum(part);
  sum = part[0];
}

template <typename T>
__global__ void softmax_kernel(int64_t n, T* y, const T* x) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * n;
  float top, sum;
  row_softmax(x + at, n, top, sum);
  const float scale = 1 / sum;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    store(y + at + i, expf(load(x + at + i) - top) * scale);
}

template <typename T>
__global__ void softmax_backward_kernel(int64_t n, T* dx, const T* y, const T* dy) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * n;
  float dot[1] = {0};
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) dot[0] += load(y + at + i) * load(dy + at + i);
  block_sum(dot);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    store(dx + at + i, load(y + at + i) * (load(dy + at + i) - dot[0]));
}

template <typename T>
__global__ void cross_entropy_kernel(int64_t n, float* losses, float* logp, const T* x,
                                     const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * n;
  float top, sum;
  row_softmax(x + at, n, top, sum);
  const float shift = top + logf(sum);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) store(logp + at + i, load(x + at + i) - shift);
  if (threadIdx.x == 0) losses[row] = labels[row] >= 0 ? shift - load(x + at + labels[row]) : 0;
}

/// out = sum of values / by, in double, by one block.
__global__ void total_kernel(int64_t n, double by, float* out, const float* values) {
  __shared__ double part[1024];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(values[i]);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
    if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = static_cast<float>(part[0] / by);
}

template <typename T>
__global__ void cross_entropy_backward_kernel(int64_t n, float share, const State* state, T* dx,
                                              const float* logp, const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * n;
  const float scale = share * state->loss_scale;
  const int64_t label = labels[row];
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const float hit = i == label ? 1.0F : 0.0F;
    store(dx + at + i, label < 0 ? 0.0F : scale * (expf(load(logp + at + i)) - hit));
  }
}

__global__ void cross_entropy_part_kernel(ClassesShape s, float* numbers, const float* x,
                                          const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * s.columns;
  float top, sum;
  row_softmax(x + at, s.classes, top, sum);
  if (threadIdx.x > 0) return;
  float* own = numbers + s.numbers(s.part, row);
  own[0] = top;
  own[1] = sum;
  own[2] = s.holds(labels[row]) ? x[at + labels[row] - s.first()] : 0;
}

__global__ void cross_entropy_join_kernel(ClassesShape s, float* losses, float* logp, const float* x,
                                          const float* numbers, const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * s.columns;
  float top = numbers[s.numbers(0, row)], sum = 0, target = 0;
  for (int64_t p = 1; p < s.parts; ++p) top = fmaxf(top, numbers[s.numbers(p, row)]);
  for (int64_t p = 0; p < s.parts; ++p) {
    const float* of = numbers + s.numbers(p, row);
    sum += of[1] * expf(of[0] - top);
    target += of[2];
  }
  const float shift = top + logf(sum);
  for (int64_t i = threadIdx.x; i < s.columns; i += blockDim.x) logp[at + i] = x[at + i] - shift;
  if (threadIdx.x == 0) losses[row] = labels[row] >= 0 ? shift - target : 0;
}

__global__ void cross_entropy_part_backward_kernel(ClassesShape s, float share, const State* state, float* dx,
                                                   const float* logp, const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * s.columns, label = labels[row];
  const float scale = share * state->loss_scale;
  for (int64_t i = threadIdx.x; i < s.columns; i += blockDim.x) {
    const float hit = i + s.first() == label ? 1.0F : 0.0F;
    dx[at + i] = label < 0 || i >= s.classes ? 0.0F : scale * (expf(logp[at + i]) - hit);
  }
}

/// Squares of each chunk of 4096 elements.
constexpr int64_t kChunk = 4096;
template <typename T>
__global__ void squares_kernel(int64_t n, float* sums, const T* a, const T* b) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunk,
                end = begin + kChunk < n ? begin + kChunk : n;
  float sum[1] = {0};
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const float d = load(a + i) - load(b + i);
    sum[0] += d * d;
  }
  block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum[0];
}

struct Difference {
  float scale;
  const State* state;
  __device__ float operator()(float a, float b) const { return scale * state->loss_scale * (a - b); }
};

template <typename T>
Prepared softmax(const Call& c) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return {[=](const Launch& l) {
    launch(softmax_kernel<T>, static_cast<unsigned>(rows), row_threads(n), l.stream, n, operand<T>(l, 0),
           operand<T>(l, 1));
  }};
}

template <typename T>
Prepared softmax_backward(const Call& c) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return {[=](const Launch& l) {
    launch(softmax_backward_kernel<T>, static_cast<unsigned>(rows), row_threads(n), l.stream, n,
           operand<T>(l, 0), operand<T>(l, 1), operand<T>(l, 2));
  }};
}

template <typename T>
Prepared cross_entropy(const Call& c) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return {[=](const Launch& l) {
            launch(cross_entropy_kernel<T>, static_cast<unsigned>(rows), row_threads(n), l.stream, n,
                   l.scratch, l.operands[1], operand<T>(l, 2), operand<int32_t>(l, 3));
            launch(total_kernel, 1, 1024, l.stream, rows, static_cast<double>(rows), l.operands[0],
                   l.scratch);
          },
          rows};
}

template <typename T>
Prepared cross_entropy_backward(const Call& c) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  const float share = c.scalars.at(0) / static_cast<float>(rows);
  return {[=](const Launch& l) {
    launch(cross_entropy_backward_kernel<T>, static_cast<unsigned>(rows), row_threads(n), l.stream, n, share,
           l.state, operand<T>(l, 0), l.operands[1], operand<int32_t>(l, 2));
  }};
}

Prepared cross_entropy_part(const Call& c) {
  const ClassesShape s(c);
  return {[=](const Launch& l) {
    launch(cross_entropy_part_kernel, static_cast<unsigned>(s.rows), row_threads(s.columns), l.stream, s,
           l.operands[0], l.operands[1], operand<int32_t>(l, 2));
  }};
}

Prepared cross_entropy_join(const Call& c) {
  const ClassesShape s(c);
  return {[=](const Launch& l) {
            launch(cross_entropy_join_kernel, static_cast<unsigned>(s.rows), row_threads(s.columns), l.stream,
                   s, l.scratch, l.operands[1], l.operands[2], l.operands[3], operand<int32_t>(l, 4));
            launch(total_kernel, 1, 1024, l.stream, s.rows, static_cast<double>(s.rows), l.operands[0],
                   l.scratch);
          },
          s.rows};
}

Prepared cross_entropy_part_backward(const Call& c) {
  const ClassesShape s(c);
  return {[=](const Launch& l) {
    launch(cross_entropy_part_backward_kernel, static_cast<unsigned>(s.rows), row_threads(s.columns),
           l.stream, s, 1 / static_cast<float>(s.rows), l.state, l.operands[0], l.operands[1],
           operand<int32_t>(l, 2));
  }};
}

Prepared mse(const Call& c) {
  const int64_t n = c.shape[0], chunks = (n + kChunk - 1) / kChunk;
  return {[=](const Launch& l) {
            launch(squares_kernel<float>, static_cast<unsigned>(chunks), kThreads, l.stream, n, l.scratch,
                   l.operands[1], l.operands[2]);
            launch(total_kernel, 1, 1024, l.stream, chunks, static_cast<double>(n), l.operands[0], l.scratch);
          },
          chunks};
}

Prepared mse_backward(const Call& c) {
  const int64_t n = c.shape[0];
  const float scale = c.scalars.at(0) * 2 / static_cast<float>(n);
  return {[=](const Launch& l) {
    map2(n, Difference{scale, l.state}, l.operands[0], l.operands[1], l.operands[2], l.stream);
  }};
}

}  // namespace

void add_softmax(Table& t) {
  set(t, Function::softmax, softmax<float>, softmax<Bf16>, softmax<Fp16>, half_operands<0, 1>);
  set(t, Function::softmax_backward, softmax_backward<float>, softmax_backward<Bf16>, softmax_backward<Fp16>,
      half_operands<0, 1, 2>);
  set(t, Function::cross_entropy, cross_entropy<float>, cross_entropy<Bf16>, cross_entropy<Fp16>,
      half_operands<2>);
  set(t, Function::cross_entropy_backward, cross_entropy_backward<float>, cross_entropy_backward<Bf16>,
      cross_entropy_backward<Fp16>, half_operands<0>);
  set(t, Function::cross_entropy_part, cross_entropy_part);
  set(t, Function::cross_entropy_join, cross_entropy_join);
  set(t, Function::cross_entropy_part_backward, cross_entropy_part_backward);
  set(t, Function::mse, mse);
  set(t, Function::mse_backward, mse_backward);
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
// Softmax, cross-entropy and mean squared error: one block a row; losses are summed in a fixed order.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

/// Rows are walked in groups of elements that begin at multiples of this in the whole matrix, not in the row:
/// as packs of numbers of 2 bytes do, wherever rows begin. So that sums have one order, however numbers are
/// stored, numbers of 4 bytes go the same way.
constexpr int kGroup = 8;

/// A block for each row, without threads that have no group.
unsigned group_threads(int64_t n) { return std::min<unsigned>(kThreads, row_threads(n / (kGroup / 4))); }

/// The thread's next groups as long as there are `Ahead` of them within the row, that many loads at once.
template <int Ahead, typename T, typename F>
__device__ void whole_groups(const T* row, int& i, int n, F& f) {
  constexpr int W = kWide<T>, packs = kGroup / W;
  const int step = kGroup * static_cast<int>(blockDim.x);
  while (i + (Ahead - 1) * step + kGroup <= n) {
    Pack<T> in[Ahead][packs];
#pragma unroll
    for (int a = 0; a < Ahead; ++a) {
#pragma unroll
      for (int p = 0; p < packs; ++p) in[a][p] = reinterpret_cast<const Pack<T>*>(row + i + a * step)[p];
    }
#pragma unroll
    for (int a = 0; a < Ahead; ++a) {
      float v[kGroup];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = load(&in[a][k / W].v[k % W]);
      f(i, v, true);
      i += step;
    }
  }
}

/// f(i, v, whole) for each group of this thread, in order: its elements from i on, among the n of the row
/// that begins at element `at` of matrix x. Where not the whole group lies in the row, or matrices do not
/// begin at multiples of 16 bytes (`wide`), v is -infinity for what does not.
template <typename T, typename F>
__device__ void walk_row(const T* x, int64_t at, int n, bool wide, F f) {
  const T* row = x + at;
  const int step = kGroup * static_cast<int>(blockDim.x);
  int i = kGroup * static_cast<int>(threadIdx.x) - static_cast<int>(at % kGroup);
  const auto edge = [&] {
    float v[kGroup];
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = i + k >= 0 && i + k < n ? load(row + i + k) : -INFINITY;
    f(i, v, false);
    i += step;
  };
  if (wide) {
    if (i < 0) edge();
    whole_groups<kWide<T> / 2>(row, i, n, f);
    whole_groups<1>(row, i, n, f);
  }
  while (i < n) edge();
}
template <typename T>
__device__ void store_group(T* row, int i, int n, bool whole, const float (&v)[kGroup]) {
  constexpr int W = kWide<T>;
  if (whole) {
#pragma unroll
    for (int p = 0; p < kGroup / W; ++p) {
      Pack<T> out;
#pragma unroll
      for (int k = 0; k < W; ++k) store(&out.v[k], v[p * W + k]);
      reinterpret_cast<Pack<T>*>(row + i)[p] = out;
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (i + k >= 0 && i + k < n) store(row + i + k, v[k]);
  }
}

/// Two thirds of expf's instructions. What rounding the product costs is, relative to e^x, |x| 6e-8.
__device__ float exponential(float x) { return exp2f(x * 1.44269504F); }

/// The largest of a row and the sum of exp(x - largest), in one pass over it.
template <typename T>
__device__ void row_softmax(const T* x, int64_t at, int n, bool wide, float& top, float& sum) {
  float most = -3.402823466e38F, part[1] = {0};
  walk_row(x, at, n, wide, [&](int, const float(&v)[kGroup], bool) {
    float larger = most, added = 0;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) larger = fmaxf(larger, v[k]);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) added += exponential(v[k] - larger);
    part[0] = part[0] * exponential(most - larger) + added;
    most = larger;
  });
  top = block_max(most);
  part[0] *= exponential(most - top);  // threads without an element hold 0
  block_sum(part);
  sum = part[0];
}

template <typename T>
__global__ void softmax_kernel(int n, bool wide, T* y, const T* x) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * n;
  float top, sum;
  row_softmax(x, at, n, wide, top, sum);
  const float scale = 1 / sum;
  walk_row(x, at, n, wide, [&](int i, float(&v)[kGroup], bool whole) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = exponential(v[k] - top) * scale;
    store_group(y + at, i, n, whole, v);
  });
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

/// A row's shift: what turns its logits into logarithms of probabilities when it is taken off.
template <typename T>
__global__ void cross_entropy_kernel(int n, bool wide, float* losses, float* shifts, const T* x,
                                     const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * n;
  float top, sum;
  row_softmax(x, at, n, wide, top, sum);
  if (threadIdx.x > 0) return;
  shifts[row] = top + logf(sum);
  losses[row] = labels[row] >= 0 ? shifts[row] - load(x + at + labels[row]) : 0;
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
__global__ void cross_entropy_backward_kernel(ClassesShape s, bool wide, float share, const State* state,
                                              T* dx, const T* x, const float* shifts, const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * s.columns;
  const int columns = static_cast<int>(s.columns), label = labels[row],
            own = label - static_cast<int>(s.first()), classes = label < 0 ? 0 : static_cast<int>(s.classes);
  const float scale = share * state->loss_scale, shift = shifts[row];
  walk_row(x, at, columns, wide, [&](int i, float(&v)[kGroup], bool whole) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) v[k] = scale * exponential(v[k] - shift);
    const int hit = own - i;
    if ((hit >= 0 && hit < kGroup) || i + kGroup > classes) {  // in few groups
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = i + k < classes ? v[k] - (k == hit ? scale : 0.0F) : 0.0F;
    }
    store_group(dx + at, i, columns, whole, v);
  });
}

template <typename T>
__global__ void cross_entropy_part_kernel(ClassesShape s, bool wide, float* numbers, const T* x,
                                          const int32_t* labels) {
  const int64_t row = blockIdx.x, at = row * s.columns;
  float top, sum;
  row_softmax(x, at, static_cast<int>(s.classes), wide, top, sum);
  if (threadIdx.x > 0) return;
  float* own = numbers + s.numbers(s.part, row);
  own[0] = top;
  own[1] = sum;
  own[2] = s.holds(labels[row]) ? load(x + at + labels[row] - s.first()) : 0;
}

__global__ void cross_entropy_join_kernel(ClassesShape s, float* losses, float* shifts, const float* numbers,
                                          const int32_t* labels) {
  const int64_t row = global_index();
  if (row >= s.rows) return;
  float top = numbers[s.numbers(0, row)], sum = 0, target = 0;
  for (int64_t p = 1; p < s.parts; ++p) top = fmaxf(top, numbers[s.numbers(p, row)]);
  for (int64_t p = 0; p < s.parts; ++p) {
    const float* of = numbers + s.numbers(p, row);
    sum += of[1] * expf(of[0] - top);
    target += of[2];
  }
  shifts[row] = top + logf(sum);
  losses[row] = labels[row] >= 0 ? shifts[row] - target : 0;
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
    T *y = operand<T>(l, 0), *x = operand<T>(l, 1);
    launch(softmax_kernel<T>, static_cast<unsigned>(rows), group_threads(n), l.stream, static_cast<int>(n),
           wide_aligned(y) && wide_aligned(x), y, x);
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
            const T* x = operand<T>(l, 2);
            launch(cross_entropy_kernel<T>, static_cast<unsigned>(rows), group_threads(n), l.stream,
                   static_cast<int>(n), wide_aligned(x), l.scratch, l.operands[1], x, operand<int32_t>(l, 3));
            launch(total_kernel, 1, 1024, l.stream, rows, static_cast<double>(rows), l.operands[0],
                   l.scratch);
          },
          rows};
}

template <typename T>
Prepared backward_of_classes(const ClassesShape& s, float share) {
  return {[=](const Launch& l) {
    T *dx = operand<T>(l, 0), *x = operand<T>(l, 1);
    launch(cross_entropy_backward_kernel<T>, static_cast<unsigned>(s.rows), group_threads(s.columns),
           l.stream, s, wide_aligned(dx) && wide_aligned(x), share, l.state, dx, x, l.operands[2],
           operand<int32_t>(l, 3));
  }};
}
template <typename T>
Prepared cross_entropy_backward(const Call& c) {
  const ClassesShape s(c.shape[0], c.shape[1]);
  return backward_of_classes<T>(s, c.scalars.at(0) / static_cast<float>(s.rows));
}
template <typename T>
Prepared cross_entropy_part_backward(const Call& c) {
  const ClassesShape s(c);
  return backward_of_classes<T>(s, 1 / static_cast<float>(s.rows));
}

template <typename T>
Prepared cross_entropy_part(const Call& c) {
  const ClassesShape s(c);
  return {[=](const Launch& l) {
    const T* x = operand<T>(l, 1);
    launch(cross_entropy_part_kernel<T>, static_cast<unsigned>(s.rows), group_threads(s.columns), l.stream, s,
           wide_aligned(x), l.operands[0], x, operand<int32_t>(l, 2));
  }};
}

Prepared cross_entropy_join(const Call& c) {
  const ClassesShape s(c);
  return {[=](const Launch& l) {
            launch(cross_entropy_join_kernel, blocks_for(s.rows), kThreads, l.stream, s, l.scratch,
                   l.operands[1], l.operands[2], operand<int32_t>(l, 3));
            launch(total_kernel, 1, 1024, l.stream, s.rows, static_cast<double>(s.rows), l.operands[0],
                   l.scratch);
          },
          s.rows};
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
      cross_entropy_backward<Fp16>, half_operands<0, 1>);
  set(t, Function::cross_entropy_part, cross_entropy_part<float>, cross_entropy_part<Bf16>,
      cross_entropy_part<Fp16>, half_operands<1>);
  set(t, Function::cross_entropy_join, cross_entropy_join);
  set(t, Function::cross_entropy_part_backward, cross_entropy_part_backward<float>,
      cross_entropy_part_backward<Bf16>, cross_entropy_part_backward<Fp16>, half_operands<0, 1>);
  set(t, Function::mse, mse);
  set(t, Function::mse_backward, mse_backward);
}

}  // namespace tandem::exec::cuda

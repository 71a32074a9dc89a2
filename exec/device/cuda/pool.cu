// SPDX-License-Identifier: Apache-2.0
// Pooling: one thread an output element, or an input element on the way back, which asks the windows that
// cover it.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

template <typename I>
struct Pool : PoolShape<I> {
  using typename PoolShape<I>::Range;
  using typename PoolShape<I>::Space;
  using PoolShape<I>::PoolShape, PoolShape<I>::channels, PoolShape<I>::last, PoolShape<I>::in,
      PoolShape<I>::out, PoolShape<I>::kernel, PoolShape<I>::stride, PoolShape<I>::pad;

  struct Place {
    I image, channel, at[3];
  };
  /// Of element i of a tensor with that space.
  __device__ Place place(I i, const Space& space) const {
    Place p;
    const I positions = space[0] * space[1] * space[2];
    I position;
    if (last) {
      p.channel = i % channels;
      position = i / channels % positions;
    } else {
      position = i % positions;
      p.channel = i / positions % channels;
    }
    p.image = i / channels / positions;
    p.at[2] = position % space[2];
    p.at[1] = position / space[2] % space[1];
    p.at[0] = position / space[2] / space[1];
    return p;
  }
  __device__ I element(const Place& p, I position, const Space& space) const {
    const I positions = space[0] * space[1] * space[2];
    return last ? (p.image * positions + position) * channels + p.channel
                : (p.image * channels + p.channel) * positions + position;
  }

  /// Windows that cover input i along dimension d: outputs [begin, end).
  __device__ Range covering(int d, I i) const {
    I b, e;
    if (stride[d] == 0) {
      b = i * out[d] / in[d];
      e = ((i + 1) * out[d] + in[d] - 1) / in[d];
    } else {
      const I first = i + pad[d] - kernel[d] + 1;
      b = first <= 0 ? 0 : (first + stride[d] - 1) / stride[d];
      e = (i + pad[d]) / stride[d] + 1;
    }
    return {b, e < out[d] ? e : out[d], 0};
  }
  __device__ float share(const Range& z, const Range& y, const Range& x, float scale) const {
    return scale / static_cast<float>(PoolShape<I>::divisor(z, y, x));
  }
  /// use(position of `space`) for all in the box, in order.
  template <typename Use>
  __device__ static void each(const Range& z, const Range& y, const Range& x, const Space& space,
                              const Use& use) {
    for (I a = z.begin; a < z.end; ++a)
      for (I b = y.begin; b < y.end; ++b)
        for (I c = x.begin; c < x.end; ++c) use((a * space[1] + b) * space[2] + c, a, b, c);
  }
};

template <typename I, typename T>
__global__ void max_pool_kernel(Pool<I> p, I count, T* y, const T* x, int32_t* where) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto to = p.place(i, p.out);
  float most = -3.402823466e38F;
  I best = 0;
  p.each(p.window(0, to.at[0]), p.window(1, to.at[1]), p.window(2, to.at[2]), p.in, [&](I position, I, I, I) {
    const float v = load(x + p.element(to, position, p.in));
    if (v > most) {
      most = v;
      best = position;
    }
  });
  store(y + i, most);
  where[i] = static_cast<int32_t>(best);
}

/// Sums in the order of the windows, whatever the timing.
template <typename I, typename T>
__global__ void max_pool_backward_kernel(Pool<I> p, I count, T* dx, const T* dy, const int32_t* where) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto at = p.place(i, p.in);
  const I mine = (at.at[0] * p.in[1] + at.at[1]) * p.in[2] + at.at[2];
  float sum = 0;
  p.each(p.covering(0, at.at[0]), p.covering(1, at.at[1]), p.covering(2, at.at[2]), p.out,
         [&](I position, I, I, I) {
           const I o = p.element(at, position, p.out);
           if (where[o] == mine) sum += load(dy + o);
         });
  store(dx + i, sum);
}

template <typename I, typename T>
__global__ void avg_pool_kernel(Pool<I> p, I count, float scale, T* y, const T* x) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto to = p.place(i, p.out);
  const auto z = p.window(0, to.at[0]), r = p.window(1, to.at[1]), c = p.window(2, to.at[2]);
  float sum = 0;
  p.each(z, r, c, p.in, [&](I position, I, I, I) { sum += load(x + p.element(to, position, p.in)); });
  store(y + i, sum * p.share(z, r, c, scale));
}

template <typename I, typename T>
__global__ void avg_pool_backward_kernel(Pool<I> p, I count, float scale, T* dx, const T* dy) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto at = p.place(i, p.in);
  float sum = 0;
  p.each(p.covering(0, at.at[0]), p.covering(1, at.at[1]), p.covering(2, at.at[2]), p.out,
         [&](I position, I a, I b, I c) {
           sum += p.share(p.window(0, a), p.window(1, b), p.window(2, c), scale) *
                  load(dy + p.element(at, position, p.out));
         });
  store(dx + i, sum);
}

/// A mean over everything (global pooling, a row of a matrix): columns are (image, channel).
template <typename T>
__global__ void mean_kernel(int64_t channels, int64_t positions, float share, T* y, const T* x) {
  __shared__ float part[kTileRows][kWarp];
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x, image = blockIdx.y;
  float sum = 0;
  if (c < channels) {
    for (int64_t k = threadIdx.y; k < positions; k += kTileRows)
      sum += load(x + (image * positions + k) * channels + c);
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
  float total = 0;
  for (int r = 0; r < kTileRows; ++r) total += part[r][threadIdx.x];
  store(y + image * channels + c, total * share);
}

float scale_of(const Call& c) { return c.scalars.empty() ? 1.0F : c.scalars[0]; }

template <typename T, typename I>
Prepared max_pool(const Call& c) {
  const Pool<I> p(c);
  const int64_t n = p.elements(p.out);
  return {[=](const Launch& l) {
    launch(max_pool_kernel<I, T>, blocks_for(n), kThreads, l.stream, p, n, operand<T>(l, 0), operand<T>(l, 1),
           operand<int32_t>(l, 2));
  }};
}

template <typename T, typename I>
Prepared max_pool_backward(const Call& c) {
  const Pool<I> p(c);
  const int64_t n = p.elements(p.in);
  return {[=](const Launch& l) {
    launch(max_pool_backward_kernel<I, T>, blocks_for(n), kThreads, l.stream, p, n, operand<T>(l, 0),
           operand<T>(l, 1), operand<int32_t>(l, 2));
  }};
}

template <typename T, typename I>
Prepared avg_pool(const Call& c) {
  const Pool<I> p(c);
  const float scale = scale_of(c);
  const int64_t n = p.elements(p.out), positions = p.positions(p.in);
  bool whole = p.last && p.batch < 65536;
  for (int d = 0; d < 3; ++d)
    whole = whole && p.out[d] == 1 && p.pad[d] == 0 && (p.stride[d] == 0 || p.kernel[d] == p.in[d]);
  if (whole) {
    const float share = scale / static_cast<float>(positions);
    return {[=](const Launch& l) {
      launch(mean_kernel<T>, dim3(blocks_for(p.channels, kWarp), static_cast<unsigned>(p.batch)),
             dim3(kWarp, kTileRows), l.stream, p.channels, positions, share, operand<T>(l, 0),
             operand<T>(l, 1));
    }};
  }
  return {[=](const Launch& l) {
    launch(avg_pool_kernel<I, T>, blocks_for(n), kThreads, l.stream, p, n, scale, operand<T>(l, 0),
           operand<T>(l, 1));
  }};
}

template <typename T, typename I>
Prepared avg_pool_backward(const Call& c) {
  const Pool<I> p(c);
  const float scale = scale_of(c);
  const int64_t n = p.elements(p.in);
  return {[=](const Launch& l) {
    launch(avg_pool_backward_kernel<I, T>, blocks_for(n), kThreads, l.stream, p, n, scale, operand<T>(l, 0),
           operand<T>(l, 1));
  }};
}

/// Everything can be counted in 32 bits, one step beyond the end included.
bool small(const Call& c) {
  const Pool<int64_t> p(c);
  return std::max(p.elements(p.in), p.elements(p.out)) < (int64_t{1} << 31) - (1 << 20);
}

// The function for each kind of storage, in the width that its counts need.
#define TANDEM_BY_SIZE(name) TANDEM_OF(name, float), TANDEM_OF(name, Bf16), TANDEM_OF(name, Fp16)
#define TANDEM_OF(name, T) [](const Call& c) { return small(c) ? name<T, int32_t>(c) : name<T, int64_t>(c); }

}  // namespace

void add_pool(Table& t) {
  set(t, Function::max_pool, TANDEM_BY_SIZE(max_pool), half_operands<0, 1>);
  set(t, Function::max_pool_backward, TANDEM_BY_SIZE(max_pool_backward), half_operands<0, 1>);
  set(t, Function::avg_pool, TANDEM_BY_SIZE(avg_pool), half_operands<0, 1>);
  set(t, Function::avg_pool_backward, TANDEM_BY_SIZE(avg_pool_backward), half_operands<0, 1>);
}

}  // namespace tandem::exec::cuda

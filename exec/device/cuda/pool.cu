// SPDX-License-Identifier: Apache-2.0
// Pooling: one thread an output element, or an input element on the way back, which asks the windows that
// cover it; a window where they lie side by side. Where channels lie innermost a thread takes 16 bytes of
// them, for which it counts once.
#include <type_traits>

#include "exec/device/cuda/divisor.h"
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

/// Of neighbouring channels in one window, the position of each maximum; aligned to 16 bytes at most.
template <int W>
struct alignas(W < 4 ? 4 : 16) Places {
  int32_t v[W];
};

/// In packs of W neighbouring channels: 1, or what channels that lie innermost are a multiple of.
template <typename Count, int Wide>
struct Pool : PoolShape<Count> {
  using I = Count;
  static constexpr int W = Wide;
  using typename PoolShape<I>::Range;
  using typename PoolShape<I>::Space;
  using PoolShape<I>::channels, PoolShape<I>::last, PoolShape<I>::in, PoolShape<I>::out, PoolShape<I>::kernel,
      PoolShape<I>::stride, PoolShape<I>::pad;
  struct Sizes {
    Divisor<I> d[3];
    explicit Sizes(const Space& s) : d{Divisor<I>(s[0]), Divisor<I>(s[1]), Divisor<I>(s[2])} {}
  };
  Divisor<I> packs;
  Sizes ins, outs, strides;

  explicit Pool(const PoolShape<I>& shape)
      : PoolShape<I>(shape),
        packs(std::max<I>(1, channels / W)),
        ins(in),
        outs(out),
        strides({std::max<I>(1, stride[0]), std::max<I>(1, stride[1]), std::max<I>(1, stride[2])}) {}

  __device__ bool innermost() const { return W > 1 || last; }
  struct Place {
    I image, channel, at[3];
  };
  /// Of pack i of a tensor with that space.
  __device__ Place place(I i, const Sizes& space) const {
    const auto split = [&i](const Divisor<I>& size) {
      const I whole = size.quotient(i), rest = i - whole * size.by;
      i = whole;
      return rest;
    };
    Place p;
    if (innermost()) p.channel = split(packs) * W;
    for (int d = 2; d >= 0; --d) p.at[d] = split(space.d[d]);
    if (!innermost()) p.channel = split(packs);
    p.image = i;
    return p;
  }
  __device__ I element(const Place& p, I position, const Space& space) const {
    const I positions = space[0] * space[1] * space[2];
    return innermost() ? (p.image * positions + position) * channels + p.channel
                       : (p.image * channels + p.channel) * positions + position;
  }

  template <typename T>
  __device__ Neighbours<T, W> pack(const T* x, const Place& p, I position, const Space& space) const {
    return *reinterpret_cast<const Neighbours<T, W>*>(x + element(p, position, space));
  }

  /// Windows that cover input i along dimension d: outputs [begin, end).
  __device__ Range covering(int d, I i) const {
    I b, e;
    if (stride[d] == 0) {
      b = i * out[d] / in[d];
      e = ((i + 1) * out[d] + in[d] - 1) / in[d];
    } else {
      const I first = i + pad[d] - kernel[d] + 1;
      b = first <= 0 ? 0 : strides.d[d].quotient(first + stride[d] - 1);
      e = strides.d[d].quotient(i + pad[d]) + 1;
    }
    return {b, e < out[d] ? e : out[d], 0};
  }
  /// Of windows side by side: the inputs from that of output o up to the next one's, or to the end.
  __device__ Range tile(int d, I o) const {
    return {o * stride[d], o + 1 < out[d] ? (o + 1) * stride[d] : in[d], 0};
  }
  __device__ float share(const Range& z, const Range& y, const Range& x, float scale) const {
    return scale / static_cast<float>(PoolShape<I>::divisor(z, y, x));
  }
  /// use(fetch(position), position of `space`, ...) for all in the box, in order. Up to `Ahead` of a row are
  /// fetched before the first is used.
  template <int Ahead, typename Fetch, typename Use>
  __device__ static void each(const Range& z, const Range& y, const Range& x, const Space& space,
                              const Fetch& fetch, const Use& use) {
    for (I a = z.begin; a < z.end; ++a)
      for (I b = y.begin; b < y.end; ++b)
        for (I c = x.begin; c < x.end; c += Ahead) {
          const I position = (a * space[1] + b) * space[2] + c;
          decltype(fetch(position)) fetched[Ahead];
#pragma unroll
          for (int k = 0; k < Ahead; ++k) {
            if (c + k < x.end) fetched[k] = fetch(position + k);
          }
#pragma unroll
          for (int k = 0; k < Ahead; ++k) {
            if (c + k < x.end) use(fetched[k], position + k, a, b, c + k);
          }
        }
  }
};

template <typename P, typename T, typename I = typename P::I, int W = P::W>
__global__ void max_pool_kernel(P p, I count, T* y, const T* x, int32_t* where) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto to = p.place(i, p.outs);
  float most[W];
  Places<W> best = {};
  for (float& v : most) v = -3.402823466e38F;
  p.template each<4>(
      p.window(0, to.at[0]), p.window(1, to.at[1]), p.window(2, to.at[2]), p.in,
      [&](I position) { return p.pack(x, to, position, p.in); },
      [&](const Neighbours<T, W>& fetched, I position, I, I, I) {
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const float v = load(&fetched.v[k]);
          best.v[k] = v > most[k] ? static_cast<int32_t>(position) : best.v[k];
          most[k] = v > most[k] ? v : most[k];
        }
      });
  store_neighbours(y + i * W, most);
  *reinterpret_cast<Places<W>*>(where + i * W) = best;
}

/// Sums in the order of the windows, whatever the timing.
template <typename P, typename T, typename I = typename P::I, int W = P::W>
__global__ void max_pool_backward_kernel(P p, I count, T* dx, const T* dy, const int32_t* where) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto at = p.place(i, p.ins);
  const auto mine = static_cast<int32_t>((at.at[0] * p.in[1] + at.at[1]) * p.in[2] + at.at[2]);
  struct Fetched {
    Places<W> where;
    Neighbours<T, W> dy;
  };
  float sum[W] = {};
  p.template each<2>(
      p.covering(0, at.at[0]), p.covering(1, at.at[1]), p.covering(2, at.at[2]), p.out,
      [&](I position) {
        const I o = p.element(at, position, p.out);
        return Fetched{*reinterpret_cast<const Places<W>*>(where + o),
                       *reinterpret_cast<const Neighbours<T, W>*>(dy + o)};
      },
      [&](const Fetched& window, I, I, I, I) {
#pragma unroll
        for (int k = 0; k < W; ++k) {
          if (window.where.v[k] == mine) sum[k] += load(&window.dy.v[k]);
        }
      });
  store_neighbours(dx + i * W, sum);
}

/// Where windows lie side by side: one thread a window, which writes all inputs up to the next one.
template <typename P, typename T, typename I = typename P::I, int W = P::W>
__global__ void max_pool_spread_kernel(P p, I count, T* dx, const T* dy, const int32_t* where) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto from = p.place(i, p.outs);
  const auto best = *reinterpret_cast<const Places<W>*>(where + i * W);
  const auto gradient = *reinterpret_cast<const Neighbours<T, W>*>(dy + i * W);
  const auto z = p.tile(0, from.at[0]), y = p.tile(1, from.at[1]), x = p.tile(2, from.at[2]);
  for (I a = z.begin; a < z.end; ++a)
    for (I b = y.begin; b < y.end; ++b)
      for (I c = x.begin; c < x.end; ++c) {
        const I position = (a * p.in[1] + b) * p.in[2] + c;
        Neighbours<T, W> out;
#pragma unroll
        for (int k = 0; k < W; ++k)
          out.v[k] = best.v[k] == static_cast<int32_t>(position) ? gradient.v[k] : T{};
        *reinterpret_cast<Neighbours<T, W>*>(dx + p.element(from, position, p.in)) = out;
      }
}

template <typename P, typename T, typename I = typename P::I, int W = P::W>
__global__ void avg_pool_kernel(P p, I count, float scale, T* y, const T* x) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto to = p.place(i, p.outs);
  const auto z = p.window(0, to.at[0]), r = p.window(1, to.at[1]), c = p.window(2, to.at[2]);
  float sum[W] = {};
  p.template each<4>(
      z, r, c, p.in, [&](I position) { return p.pack(x, to, position, p.in); },
      [&](const Neighbours<T, W>& fetched, I, I, I, I) {
#pragma unroll
        for (int k = 0; k < W; ++k) sum[k] += load(&fetched.v[k]);
      });
  const float share = p.share(z, r, c, scale);
  for (float& v : sum) v *= share;
  store_neighbours(y + i * W, sum);
}

template <typename P, typename T, typename I = typename P::I, int W = P::W>
__global__ void avg_pool_backward_kernel(P p, I count, float scale, T* dx, const T* dy) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto at = p.place(i, p.ins);
  float sum[W] = {};
  p.template each<2>(
      p.covering(0, at.at[0]), p.covering(1, at.at[1]), p.covering(2, at.at[2]), p.out,
      [&](I position) { return p.pack(dy, at, position, p.out); },
      [&](const Neighbours<T, W>& fetched, I, I a, I b, I c) {
        const float share = p.share(p.window(0, a), p.window(1, b), p.window(2, c), scale);
#pragma unroll
        for (int k = 0; k < W; ++k) sum[k] += share * load(&fetched.v[k]);
      });
  store_neighbours(dx + i * W, sum);
}

/// A mean over everything (global pooling, a row of a matrix): columns are (image, channel), of which a
/// thread takes W.
template <int W, typename T>
__global__ void mean_kernel(int64_t channels, int64_t positions, float share, T* y, const T* x) {
  __shared__ float part[kTileRows][kWarp * W];
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x) * W, image = blockIdx.y;
  float sum[W] = {};
  if (c < channels) {
#pragma unroll 4
    for (int64_t k = threadIdx.y; k < positions; k += kTileRows) {
      float v[W];
      load_neighbours(x + (image * positions + k) * channels + c, v);
#pragma unroll
      for (int w = 0; w < W; ++w) sum[w] += v[w];
    }
  }
#pragma unroll
  for (int w = 0; w < W; ++w) part[threadIdx.y][threadIdx.x * W + w] = sum[w];
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
  float total[W] = {};
  for (int r = 0; r < kTileRows; ++r) {
#pragma unroll
    for (int w = 0; w < W; ++w) total[w] += part[r][threadIdx.x * W + w];
  }
  for (float& v : total) v *= share;
  store_neighbours(y + image * channels + c, total);
}

/// Back from that.
template <typename P, typename T, typename I = typename P::I, int W = P::W>
__global__ void mean_backward_kernel(P p, I count, float share, T* dx, const T* dy) {
  const int64_t index = global_index();
  if (index >= count) return;
  const I i = static_cast<I>(index);
  const auto at = p.place(i, p.ins);
  float v[W];
  load_neighbours(dy + p.element(at, 0, p.out), v);
  for (float& each : v) each *= share;
  store_neighbours(dx + i * W, v);
}

/// The geometry of a call for threads that take one channel, and for those that take 16 bytes of them.
template <typename T, typename I>
struct Pools {
  static constexpr int W = kWide<T>;
  PoolShape<I> shape;
  Pool<I, 1> one;
  Pool<I, W> wide;
  explicit Pools(const Call& c) : shape(c), one(shape), wide(shape) {}
  /// What lies at these addresses can be taken so.
  template <typename... At>
  bool wide_at(const At*... at) const {
    return shape.last && shape.channels % W == 0 && (wide_aligned(at) && ...);
  }
  /// use(Pool, its packs of a tensor with that space).
  template <typename Use>
  void run(const typename PoolShape<I>::Space& space, bool wide_channels, const Use& use) const {
    if (wide_channels)
      use(wide, shape.elements(space) / W);
    else
      use(one, shape.elements(space));
  }
};

float scale_of(const Call& c) { return c.scalars.empty() ? 1.0F : c.scalars[0]; }

template <typename T, typename I>
Prepared max_pool(const Call& c) {
  const Pools<T, I> pools(c);
  return {[=](const Launch& l) {
    T *y = operand<T>(l, 0), *x = operand<T>(l, 1);
    auto* where = operand<int32_t>(l, 2);
    pools.run(pools.shape.out, pools.wide_at(y, x, where), [&](const auto& p, int64_t n) {
      launch(max_pool_kernel<std::decay_t<decltype(p)>, T>, blocks_for(n), kThreads, l.stream, p, n, y, x,
             where);
    });
  }};
}

/// Windows lie side by side, few enough inputs to each that a thread may write them all. With positions
/// innermost its neighbours' writes would not lie together.
template <typename I>
bool side_by_side(const PoolShape<I>& p) {
  bool out = p.last && p.positions(p.kernel) <= 16;
  for (int d = 0; d < 3; ++d) out = out && p.pad[d] == 0 && p.stride[d] > 0 && p.kernel[d] == p.stride[d];
  return out;
}

template <typename T, typename I>
Prepared max_pool_backward(const Call& c) {
  const Pools<T, I> pools(c);
  const bool spreads = side_by_side(pools.shape);
  return {[=](const Launch& l) {
    T *dx = operand<T>(l, 0), *dy = operand<T>(l, 1);
    auto* where = operand<int32_t>(l, 2);
    const auto& threads = spreads ? pools.shape.out : pools.shape.in;
    pools.run(threads, pools.wide_at(dx, dy, where), [&](const auto& p, int64_t n) {
      using P = std::decay_t<decltype(p)>;
      launch(spreads ? max_pool_spread_kernel<P, T> : max_pool_backward_kernel<P, T>, blocks_for(n), kThreads,
             l.stream, p, n, dx, dy, where);
    });
  }};
}

/// One window, all of the input.
template <typename I>
bool whole(const PoolShape<I>& p) {
  bool out = p.last && p.batch < 65536;
  for (int d = 0; d < 3; ++d)
    out = out && p.out[d] == 1 && p.pad[d] == 0 && (p.stride[d] == 0 || p.kernel[d] == p.in[d]);
  return out;
}

template <typename T>
Prepared mean(const PoolShape<int64_t>& p, float scale) {
  const int64_t channels = p.channels, positions = p.positions(p.in), images = p.batch;
  const float share = scale / static_cast<float>(positions);
  return {[=](const Launch& l) {
    T *y = operand<T>(l, 0), *x = operand<T>(l, 1);
    const auto run = [&](auto kernel, int wide) {
      launch(kernel, dim3(blocks_for(channels, int64_t{kWarp} * wide), static_cast<unsigned>(images)),
             dim3(kWarp, kTileRows), l.stream, channels, positions, share, y, x);
    };
    constexpr int W = kWide<T>;  // where whole warps have as many channels
    if (channels % W == 0 && channels >= kWarp * W && wide_aligned(y) && wide_aligned(x))
      run(mean_kernel<W, T>, W);
    else
      run(mean_kernel<1, T>, 1);
  }};
}

template <typename T, typename I>
Prepared avg_pool(const Call& c) {
  const Pools<T, I> pools(c);
  const float scale = scale_of(c);
  if (whole(pools.shape)) return mean<T>(PoolShape<int64_t>(c), scale);
  return {[=](const Launch& l) {
    T *y = operand<T>(l, 0), *x = operand<T>(l, 1);
    pools.run(pools.shape.out, pools.wide_at(y, x), [&](const auto& p, int64_t n) {
      launch(avg_pool_kernel<std::decay_t<decltype(p)>, T>, blocks_for(n), kThreads, l.stream, p, n, scale, y,
             x);
    });
  }};
}

template <typename T, typename I>
Prepared avg_pool_backward(const Call& c) {
  const Pools<T, I> pools(c);
  const bool one_window = whole(pools.shape);
  const float scale = scale_of(c), share = scale / static_cast<float>(pools.shape.positions(pools.shape.in));
  return {[=](const Launch& l) {
    T *dx = operand<T>(l, 0), *dy = operand<T>(l, 1);
    pools.run(pools.shape.in, pools.wide_at(dx, dy), [&](const auto& p, int64_t n) {
      using P = std::decay_t<decltype(p)>;
      launch(one_window ? mean_backward_kernel<P, T> : avg_pool_backward_kernel<P, T>, blocks_for(n),
             kThreads, l.stream, p, n, one_window ? share : scale, dx, dy);
    });
  }};
}

/// Everything can be counted in 32 bits, one step beyond the end included.
bool small(const Call& c) {
  const PoolShape<int64_t> p(c);
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

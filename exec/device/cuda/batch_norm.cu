// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: statistics of channels over all rows. {batch, channels, length} tensors, which lie
// channel by channel, take the same way with other index arithmetic. What follows it and works element by
// element (a sum, a rectifier) is done on the way.
#include "exec/device/cuda/storage.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

struct Channels : ChannelShape {
  using ChannelShape::ChannelShape;
  __device__ int64_t at(int64_t row, int64_t channel) const {
    if (inner == 1) return row * channels + channel;
    return (row / inner * channels + channel) * inner + row % inner;
  }
  /// The same, known to lie side by side where W neighbours are taken at once.
  template <int W>
  __device__ int64_t of(int64_t row, int64_t channel) const {
    return W > 1 ? row * channels + channel : at(row, channel);
  }
  __device__ int64_t channel(int64_t i) const { return inner == 1 ? i % channels : i / inner % channels; }
};
/// Do neighbouring channels lie side by side, and what is known of them, too?
template <typename... T>
bool contiguous(const Channels& s, const ColumnCut& cut, const T*... at) {
  return s.inner == 1 && contiguous_columns(cut, at...);
}
/// What is learned of W channels, or stands for it.
template <int W>
__device__ void load_learned(const float* p, int64_t c, float otherwise, float (&out)[W]) {
  if (p != nullptr) {
    load_neighbours(p + c, out);
  } else {
#pragma unroll
    for (int k = 0; k < W; ++k) out[k] = otherwise;
  }
}

/// x - p and its square, where the pivot p is the channel's first element: nothing cancels however large the
/// mean. Or a given one.
template <typename T>
struct Moments {
  Channels s;
  const T* x;
  const float* pivot = nullptr;
  template <int W>
  __device__ auto columns(int64_t c) const {
    float first[W];
    if (pivot != nullptr)
      load_neighbours(pivot + c, first);
    else
      load_neighbours(x + s.of<W>(0, c), first);
    return [=, *this](int64_t r) {
      float v[W];
      load_neighbours(x + s.of<W>(r, c), v);
      return [=](float(&out)[W][2]) {
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const float d = v[k] - first[k];
          out[k][0] = d;
          out[k][1] = d * d;
        }
      };
    };
  }
};

/// y = x factor + shift, per channel.
struct Affine {
  float *factor, *shift;
};
/// Of one channel. Backward passes recompute it bit for bit, so with operations that no compiler fuses.
struct Line {
  float factor, shift;
  __device__ Line(float mean, float deviation, float scale, float offset)
      : factor(scale * deviation), shift(fmaf(-mean, factor, offset)) {}
};
__device__ float learned(const float* p, int64_t c, float otherwise) {
  return p != nullptr ? p[c] : otherwise;
}

/// What the sums around a pivot make of a channel.
struct ChannelNorm {
  Channels s;
  float epsilon, momentum;
  float *mean, *deviation, *running_mean, *running_variance;
  const float *scale, *shift;  ///< null: none
  Affine out;
  __device__ void finish(int64_t c, float pivot, float sum, float square) const {
    const auto n = static_cast<float>(s.all_rows());
    const float d = sum / n, m = pivot + d, variance = fmaxf(0.0F, square / n - d * d);
    // The running variance is the unbiased one, as frameworks keep it.
    const float unbiased = n > 1 ? n / (n - 1) : 1;
    mean[c] = m;
    running_mean[c] += momentum * (m - running_mean[c]);
    running_variance[c] += momentum * (unbiased * variance - running_variance[c]);
    const float one = 1 / sqrtf(variance + epsilon);
    deviation[c] = one;
    const Line line(m, one, learned(scale, c, 1), learned(shift, c, 0));
    out.factor[c] = line.factor;
    out.shift[c] = line.shift;
  }
};

template <typename T>
struct Statistics {
  ChannelNorm norm;
  const T* x;
  __device__ void operator()(int64_t c, const float (&sums)[2]) const {
    norm.finish(c, load(x + norm.s.at(0, c)), sums[0], sums[1]);
  }
};

/// Plain sums, followed by those of the squares.
struct KeepSums {
  float* sums;
  int64_t channels;
  __device__ void operator()(int64_t c, const float (&of)[2]) const {
    sums[c] = of[0];
    sums[channels + c] = of[1];
  }
};

__global__ void shared_kernel(ChannelNorm norm, const float* sums) {
  const int64_t c = global_index();
  if (c < norm.s.channels) norm.finish(c, norm.running_mean[c], sums[c], sums[norm.s.channels + c]);
}

/// What becomes of a normalised value: + added, then cut off below 0 and above `high`.
template <typename T, bool Adds, bool Cuts>
struct Then {
  const T* added = nullptr;
  float high = 0;
  __device__ float operator()(float v, float more) const {
    if constexpr (Adds) v += more;
    if constexpr (Cuts) v = fminf(fmaxf(v, 0.0F), high);
    return v;
  }
};

template <typename T, bool Adds, bool Cuts>
__global__ void affine_kernel(Channels s, T* y, const T* x, const float* factor, const float* shift,
                              Then<T, Adds, Cuts> then) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < s.count(); i += stride) {
    const int64_t c = s.channel(i);
    store(y + i, then(fmaf(load(x + i), factor[c], shift[c]), Adds ? load(then.added + i) : 0.0F));
  }
}
/// Blocks that walk over rows of packs, each thread down one column of them, so that it reads what belongs to
/// its channels once.
constexpr int kAhead = 2;  ///< rows that a thread reads at once
struct Walk {
  dim3 block, grid;
  Walk(int64_t rows, int64_t packs) : block(lanes_for(packs), kThreads / lanes_for(packs)) {
    const int64_t across = blocks_for(packs, block.x), down = blocks_for(rows, block.y * kAhead * 2);
    grid = dim3(static_cast<unsigned>(across),
                static_cast<unsigned>(std::max<int64_t>(1, std::min(1024 / across, down))));
  }
};
/// From the last row to the first: what sums over the rows read last is still in the cache. f takes places of
/// packs; below 0 lies what is none.
template <typename F>
__device__ void walk(int64_t rows, int64_t packs, int64_t pack, F f) {
  const int64_t step = int64_t{gridDim.y} * blockDim.y,
                first = int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  for (int64_t r = rows - 1 - first; r >= 0; r -= kAhead * step) {
    int64_t at[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) at[a] = r - a * step < 0 ? -1 : (r - a * step) * packs + pack;
    f(at);
  }
}
/// All before any is written: a compiler must take what is written for what is read next.
template <typename T>
__device__ void read(const T* x, const int64_t (&at)[kAhead], Pack<T> (&out)[kAhead]) {
#pragma unroll
  for (int a = 0; a < kAhead; ++a) out[a] = reinterpret_cast<const Pack<T>*>(x)[at[a] < 0 ? at[0] : at[a]];
}

/// The same for kWide elements a thread, where whole packs lie within a row of channels.
template <typename T, bool Adds, bool Cuts>
__global__ void __launch_bounds__(kThreads, 4)
    affine_wide_kernel(int64_t rows, int64_t packs, T* y, const T* x, const float* factor, const float* shift,
                       Then<T, Adds, Cuts> then) {
  const int64_t pack = global_index();
  if (pack >= packs) return;
  float f[kWide<T>], b[kWide<T>];
  load_neighbours(factor + pack * kWide<T>, f);
  load_neighbours(shift + pack * kWide<T>, b);
  walk(rows, packs, pack, [&](const int64_t(&at)[kAhead]) {
    Pack<T> in[kAhead], more[kAhead], out;
    read(x, at, in);
    if constexpr (Adds) read(then.added, at, more);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (at[a] < 0) break;
#pragma unroll
      for (int k = 0; k < kWide<T>; ++k)
        store(&out.v[k], then(fmaf(load(&in[a].v[k]), f[k], b[k]), Adds ? load(&more[a].v[k]) : 0.0F));
      reinterpret_cast<Pack<T>*>(y)[at[a]] = out;
    }
  });
}

template <typename T>
bool wide_rows(const Channels& s) {
  return s.inner == 1 && s.channels % kWide<T> == 0;
}

template <typename T, bool Adds = false, bool Cuts = false>
void apply(const Channels& s, T* y, const T* x, const Affine& f, Stream stream,
           Then<T, Adds, Cuts> then = {}) {
  if (wide_rows<T>(s) && wide_aligned(y) && wide_aligned(x) && wide_aligned(then.added)) {
    const int64_t packs = s.channels / kWide<T>;
    const Walk blocks(s.rows(), packs);
    launch(affine_wide_kernel<T, Adds, Cuts>, blocks.grid, blocks.block, stream, s.rows(), packs, y, x,
           f.factor, f.shift, then);
  } else {
    launch(affine_kernel<T, Adds, Cuts>, std::min(16384U, blocks_for(s.count())), kThreads, stream, s, y, x,
           f.factor, f.shift, then);
  }
}

struct Running {
  float epsilon, momentum;
};
/// Of a launch of batch_norm, or of batch_norm_shared with `learned` one higher: where scale and shift are.
ChannelNorm channel_norm(const Channels& s, const Running& r, const Launch& l, std::size_t learned,
                         bool affine, const Affine& out) {
  float* const* o = l.operands;
  return {s,
          r.epsilon,
          r.momentum,
          o[2],
          o[3],
          o[4],
          o[5],
          affine ? o[learned] : nullptr,
          affine ? o[learned + 1] : nullptr,
          out};
}

/// batch_norm, and batch_norm_relu, which has what is added in front of scale and shift.
template <typename T>
Prepared batch_norm(const Call& c) {
  const Channels s(c);
  const Running running{c.scalars[0], c.scalars[1]};
  const bool cuts = c.function == Function::batch_norm_relu, adds = cuts && c.shape[5] != 0;
  const float high = cuts ? c.scalars[2] : 0;
  const std::size_t learned = adds ? 7 : 6;
  const bool affine = c.operands.size() > learned;
  const ColumnCut cut(s.rows(), s.channels, 2);
  return {[=](const Launch& l) {
            const Affine out{l.scratch, l.scratch + s.channels};
            T* y = operand<T>(l, 0);
            const T* x = operand<T>(l, 1);
            column_sums<2>(cut, contiguous(s, cut, x), Moments<T>{s, x},
                           Statistics<T>{channel_norm(s, running, l, learned, affine, out), x},
                           l.scratch + 2 * s.channels, l.stream);
            if (adds)
              apply(s, y, x, out, l.stream, Then<T, true, true>{operand<T>(l, 6), high});
            else if (cuts)
              apply(s, y, x, out, l.stream, Then<T, false, true>{nullptr, high});
            else
              apply(s, y, x, out, l.stream, Then<T, false, false>{});
          },
          2 * s.channels + cut.scratch(2)};
}

template <typename T>
Prepared batch_norm_statistics(const Call& c) {
  const Channels s(c);
  const ColumnCut cut(s.rows(), s.channels, 2);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            const T* x = operand<T>(l, 1);
            column_sums<2>(cut, contiguous(s, cut, x, o[2]), Moments<T>{s, x, o[2]},
                           KeepSums{o[0], s.channels}, l.scratch, l.stream);
          },
          cut.scratch(2)};
}

template <typename T>
Prepared batch_norm_shared(const Call& c) {
  const Channels s(c);
  const Running running{c.scalars[0], c.scalars[1]};
  const bool affine = c.operands.size() > 7;
  return {[=](const Launch& l) {
            const Affine out{l.scratch, l.scratch + s.channels};
            launch(shared_kernel, blocks_for(s.channels), kThreads, l.stream,
                   channel_norm(s, running, l, 7, affine, out), l.operands[6]);
            apply<T>(s, operand<T>(l, 0), operand<T>(l, 1), out, l.stream);
          },
          2 * s.channels};
}

__global__ void inference_kernel(int64_t channels, float epsilon, const float* mean, const float* variance,
                                 const float* scale, const float* shift, Affine out) {
  const int64_t c = global_index();
  if (c >= channels) return;
  out.factor[c] = (scale != nullptr ? scale[c] : 1.0F) / sqrtf(variance[c] + epsilon);
  out.shift[c] = (shift != nullptr ? shift[c] : 0.0F) - mean[c] * out.factor[c];
}

template <typename T>
Prepared batch_norm_inference(const Call& c) {
  const Channels s(c);
  const float epsilon = c.scalars[0];
  const bool affine = c.operands.size() > 4;
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            const Affine out{l.scratch, l.scratch + s.channels};
            launch(inference_kernel, blocks_for(s.channels), kThreads, l.stream, s.channels, epsilon, o[2],
                   o[3], affine ? o[4] : nullptr, affine ? o[5] : nullptr, out);
            apply<T>(s, operand<T>(l, 0), operand<T>(l, 1), out, l.stream);
          },
          2 * s.channels};
}

/// Terms of the sums over d, the gradients, at W neighbouring channels with inputs v.
template <int W>
__device__ void terms(const float (&d)[W], const float (&v)[W], const float (&mean)[W], float (&out)[W][2]) {
#pragma unroll
  for (int k = 0; k < W; ++k) {
    out[k][0] = d[k] * (v[k] - mean[k]);
    out[k][1] = d[k];
  }
}
template <typename T>
struct GradientSums {
  Channels s;
  const T *x, *dy;
  const float* mean;
  template <int W>
  __device__ auto columns(int64_t c) const {
    float m[W];
    load_neighbours(mean + c, m);
    return [=, *this](int64_t r) {
      const int64_t at = s.of<W>(r, c);
      float d[W], v[W];
      load_neighbours(dy + at, d);
      load_neighbours(x + at, v);
      return [=](float(&out)[W][2]) { terms(d, v, m, out); };
    };
  }
};
/// Behind a rectifier: what it had cut off has no gradient. Whether it had, the input tells.
template <typename T>
struct CutGradientSums {
  Channels s;
  const T *x, *dy;
  const float *mean, *deviation, *scale, *shift;
  float high;
  template <int W>
  __device__ auto columns(int64_t c) const {
    float m[W], factor[W], offset[W], one[W];
    load_neighbours(mean + c, m);
    load_neighbours(deviation + c, one);
    load_learned(scale, c, 1, factor);
    load_learned(shift, c, 0, offset);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const Line line(m[k], one[k], factor[k], offset[k]);
      factor[k] = line.factor;
      offset[k] = line.shift;
    }
    return [=, *this](int64_t r) {
      const int64_t at = s.of<W>(r, c);
      float d[W], v[W];
      load_neighbours(dy + at, d);
      load_neighbours(x + at, v);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float y = fmaf(v[k], factor[k], offset[k]);
        if (!(y > 0 && y < high)) d[k] = 0;
      }
      return [=](float(&out)[W][2]) { terms(d, v, m, out); };
    };
  }
};
/// Where something was added in between, the result tells; and what was added needs the gradient, too.
template <typename T>
struct KeptGradientSums {
  Channels s;
  T* kept;
  const T *x, *dy, *y;
  const float* mean;
  float high;
  template <int W>
  __device__ auto columns(int64_t c) const {
    float m[W];
    load_neighbours(mean + c, m);
    return [=, *this](int64_t r) {
      const int64_t at = s.of<W>(r, c);
      float d[W], v[W], result[W];
      load_neighbours(dy + at, d);
      load_neighbours(x + at, v);
      load_neighbours(y + at, result);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        if (!(result[k] > 0 && result[k] < high)) d[k] = 0;
      }
      return [=, to = kept + at](float(&out)[W][2]) {
        store_neighbours(to, d);
        terms(d, v, m, out);
      };
    };
  }
};
struct WriteSums {
  float *dscale, *dshift;
  const float* deviation;
  __device__ void operator()(int64_t c, const float (&sums)[2]) const {
    dscale[c] = sums[0] * deviation[c];
    dshift[c] = sums[1];
  }
};

template <typename T>
Prepared batch_norm_sums(const Call& c) {
  const Channels s(c);
  const ColumnCut cut(s.rows(), s.channels, 2);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            const T *x = operand<T>(l, 2), *dy = operand<T>(l, 3);
            column_sums<2>(cut, contiguous(s, cut, x, dy, o[4]), GradientSums<T>{s, x, dy, o[4]},
                           WriteSums{o[0], o[1], o[5]}, l.scratch, l.stream);
          },
          cut.scratch(2)};
}

template <typename T>
Prepared batch_norm_relu_sums(const Call& c) {
  const Channels s(c);
  const ColumnCut cut(s.rows(), s.channels, 2);
  const bool added = c.shape[5] != 0, affine = !added && c.operands.size() > 6;
  const float high = c.scalars[0];
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            if (added) {
              T* kept = operand<T>(l, 2);
              const T *x = operand<T>(l, 3), *dy = operand<T>(l, 4), *y = operand<T>(l, 5);
              column_sums<2>(cut, contiguous(s, cut, kept, x, dy, y, o[6]),
                             KeptGradientSums<T>{s, kept, x, dy, y, o[6], high}, WriteSums{o[0], o[1], o[7]},
                             l.scratch, l.stream);
            } else {
              const T *x = operand<T>(l, 2), *dy = operand<T>(l, 3);
              const float *scale = affine ? o[6] : nullptr, *shift = affine ? o[7] : nullptr;
              column_sums<2>(cut, contiguous(s, cut, x, dy, o[4], o[5], scale, shift),
                             CutGradientSums<T>{s, x, dy, o[4], o[5], scale, shift, high},
                             WriteSums{o[0], o[1], o[5]}, l.scratch, l.stream);
            }
          },
          cut.scratch(2)};
}

/// dx = dy fy + x fx + one, per channel: scale / deviation (dy - mean(dy) - xhat mean(dy xhat)). Behind a
/// rectifier dy counts where x fy + shift lies between 0 and `high`.
struct Slope {
  float fy, fx, one, shift;
};
template <bool Cuts>
struct Slopes {
  float share, high;
  const float *mean, *deviation, *dscale, *dshift;
  const float *scale, *shift;  ///< null: none
  __device__ Slope of(int64_t c) const {
    const Line line(mean[c], deviation[c], learned(scale, c, 1), learned(shift, c, 0));
    const float fx = -line.factor * dscale[c] * share * deviation[c];
    return {line.factor, fx, -line.factor * dshift[c] * share - fx * mean[c], line.shift};
  }
  __device__ float gradient(float dy, float x, const Slope& s) const {
    if constexpr (Cuts) {
      const float y = fmaf(x, s.fy, s.shift);
      if (!(y > 0 && y < high)) dy = 0;
    }
    return dy * s.fy + x * s.fx + s.one;
  }
};
template <typename T, bool Cuts>
__global__ void backward_kernel(Channels s, T* dx, const T* x, const T* dy, Slopes<Cuts> slopes) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < s.count(); i += stride)
    store(dx + i, slopes.gradient(load(dy + i), load(x + i), slopes.of(s.channel(i))));
}
/// The same along rows of packs. A block's channels are at most its threads, so one thread makes one slope.
template <typename T, bool Cuts>
__global__ void __launch_bounds__(kThreads, 3)
    backward_wide_kernel(int64_t rows, int64_t packs, T* dx, const T* x, const T* dy, Slopes<Cuts> slopes) {
  constexpr int W = kWide<T>;
  __shared__ Neighbours<float, W> of[4][kWarp];
  const int64_t pack = global_index(), from = int64_t{blockIdx.x} * blockDim.x * W;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  if (thread < blockDim.x * W && from + thread < packs * W) {
    const Slope slope = slopes.of(from + thread);
    of[0][thread / W].v[thread % W] = slope.fy;
    of[1][thread / W].v[thread % W] = slope.fx;
    of[2][thread / W].v[thread % W] = slope.one;
    of[3][thread / W].v[thread % W] = slope.shift;
  }
  __syncthreads();
  if (pack >= packs) return;
  float fy[W], fx[W], one[W], shift[W];
  load_neighbours(of[0][threadIdx.x].v, fy);
  load_neighbours(of[1][threadIdx.x].v, fx);
  load_neighbours(of[2][threadIdx.x].v, one);
  load_neighbours(of[3][threadIdx.x].v, shift);
  walk(rows, packs, pack, [&](const int64_t(&at)[kAhead]) {
    Pack<T> d[kAhead], v[kAhead], out;
    read(dy, at, d);
    read(x, at, v);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (at[a] < 0) break;
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const Slope slope{fy[k], fx[k], one[k], shift[k]};
        store(&out.v[k], slopes.gradient(load(&d[a].v[k]), load(&v[a].v[k]), slope));
      }
      reinterpret_cast<Pack<T>*>(dx)[at[a]] = out;
    }
  });
}

template <typename T, bool Cuts>
void apply_backward(const Channels& s, const Launch& l, const Slopes<Cuts>& slopes) {
  T* dx = operand<T>(l, 0);
  const T *x = operand<T>(l, 1), *dy = operand<T>(l, 2);
  if (wide_rows<T>(s) && wide_aligned(dx) && wide_aligned(x) && wide_aligned(dy)) {
    const int64_t packs = s.channels / kWide<T>;
    const Walk blocks(s.rows(), packs);
    launch(backward_wide_kernel<T, Cuts>, blocks.grid, blocks.block, l.stream, s.rows(), packs, dx, x, dy,
           slopes);
  } else {
    launch(backward_kernel<T, Cuts>, std::min(16384U, blocks_for(s.count())), kThreads, l.stream, s, dx, x,
           dy, slopes);
  }
}

/// batch_norm_backward and batch_norm_relu_backward.
template <typename T>
Prepared batch_norm_backward(const Call& c) {
  const bool cuts = c.function == Function::batch_norm_relu_backward, affine = c.operands.size() > 7;
  const Channels s(c);
  const float share = 1 / static_cast<float>(s.all_rows()), high = cuts ? c.scalars[0] : 0;
  return {[=](const Launch& l) {
    float* const* o = l.operands;
    const float *scale = affine ? o[7] : nullptr, *shift = affine && cuts ? o[8] : nullptr;
    if (cuts)
      apply_backward<T>(s, l, Slopes<true>{share, high, o[3], o[4], o[5], o[6], scale, shift});
    else
      apply_backward<T>(s, l, Slopes<false>{share, high, o[3], o[4], o[5], o[6], scale, shift});
  }};
}

}  // namespace

void add_batch_norm(Table& t) {
  set(t, Function::batch_norm, batch_norm<float>, batch_norm<Bf16>, batch_norm<Fp16>, half_operands<0, 1>);
  set(t, Function::batch_norm_relu, batch_norm<float>, batch_norm<Bf16>, batch_norm<Fp16>,
      [](const Call& c) { return c.shape[5] != 0 ? half_operands<0, 1, 6>(c) : half_operands<0, 1>(c); });
  set(t, Function::batch_norm_relu_sums, batch_norm_relu_sums<float>, batch_norm_relu_sums<Bf16>,
      batch_norm_relu_sums<Fp16>,
      [](const Call& c) { return c.shape[5] != 0 ? half_operands<2, 3, 4, 5>(c) : half_operands<2, 3>(c); });
  set(t, Function::batch_norm_relu_backward, batch_norm_backward<float>, batch_norm_backward<Bf16>,
      batch_norm_backward<Fp16>, half_operands<0, 1, 2>);
  set(t, Function::batch_norm_inference, batch_norm_inference<float>, batch_norm_inference<Bf16>,
      batch_norm_inference<Fp16>, half_operands<0, 1>);
  set(t, Function::batch_norm_sums, batch_norm_sums<float>, batch_norm_sums<Bf16>, batch_norm_sums<Fp16>,
      half_operands<2, 3>);
  set(t, Function::batch_norm_backward, batch_norm_backward<float>, batch_norm_backward<Bf16>,
      batch_norm_backward<Fp16>, half_operands<0, 1, 2>);
  set(t, Function::batch_norm_statistics, batch_norm_statistics<float>, batch_norm_statistics<Bf16>,
      batch_norm_statistics<Fp16>, half_operands<1>);
  set(t, Function::batch_norm_shared, batch_norm_shared<float>, batch_norm_shared<Bf16>,
      batch_norm_shared<Fp16>, half_operands<0, 1>);
}

}  // namespace tandem::exec::cuda

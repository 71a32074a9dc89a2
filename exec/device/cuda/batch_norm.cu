// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: statistics of channels over all rows. {batch, channels, length} tensors, which lie
// channel by channel, take the same way with other index arithmetic.
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
  __device__ int64_t channel(int64_t i) const { return inner == 1 ? i % channels : i / inner % channels; }
};

/// x - p and its square, where the pivot p is the channel's first element: nothing cancels however large the
/// mean. Or a given one.
template <typename T>
struct Moments {
  Channels s;
  const T* x;
  const float* pivot = nullptr;
  __device__ void operator()(int64_t r, int64_t c, float (&out)[2]) const {
    const float d = load(x + s.at(r, c)) - (pivot != nullptr ? pivot[c] : load(x + s.at(0, c)));
    out[0] = d;
    out[1] = d * d;
  }
};

/// y = x factor + shift, per channel.
struct Affine {
  float *factor, *shift;
};

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
    out.factor[c] = scale != nullptr ? scale[c] * one : one;
    out.shift[c] = (shift != nullptr ? shift[c] : 0.0F) - m * out.factor[c];
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

/// Sums as they are, those of the squares behind the others.
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

/// use(channel, element) for kWide elements a thread; neighbours share a channel or follow each other.
template <typename T>
__global__ void affine_kernel(Channels s, T* y, const T* x, const float* factor, const float* shift) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < s.count(); i += stride) {
    const int64_t c = s.channel(i);
    store(y + i, load(x + i) * factor[c] + shift[c]);
  }
}
/// The same where whole packs lie within a row of channels.
template <typename T>
__global__ void affine_wide_kernel(int64_t packs, int64_t packs_of_row, T* y, const T* x, const float* factor,
                                   const float* shift) {
  const int64_t i = global_index();
  if (i >= packs) return;
  const int64_t c = i % packs_of_row * kWide<T>;
  const Pack<T> in = reinterpret_cast<const Pack<T>*>(x)[i];
  Pack<T> out;
#pragma unroll
  for (int k = 0; k < kWide<T>; ++k) store(&out.v[k], load(&in.v[k]) * factor[c + k] + shift[c + k]);
  reinterpret_cast<Pack<T>*>(y)[i] = out;
}

template <typename T>
bool wide_rows(const Channels& s) {
  return s.inner == 1 && s.channels % kWide<T> == 0;
}

template <typename T>
void apply(const Channels& s, T* y, const T* x, const Affine& f, Stream stream) {
  if (wide_rows<T>(s) && wide_aligned(y) && wide_aligned(x)) {
    const int64_t packs = s.count() / kWide<T>;
    launch(affine_wide_kernel<T>, blocks_for(packs), kThreads, stream, packs, s.channels / kWide<T>, y, x,
           f.factor, f.shift);
  } else {
    launch(affine_kernel<T>, std::min(16384U, blocks_for(s.count())), kThreads, stream, s, y, x, f.factor,
           f.shift);
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

template <typename T>
Prepared batch_norm(const Call& c) {
  const Channels s(c);
  const Running running{c.scalars[0], c.scalars[1]};
  const bool affine = c.operands.size() > 6;
  const ColumnCut cut(s.rows(), s.channels);
  return {[=](const Launch& l) {
            const Affine out{l.scratch, l.scratch + s.channels};
            const T* x = operand<T>(l, 1);
            column_sums<2>(cut, Moments<T>{s, x},
                           Statistics<T>{channel_norm(s, running, l, 6, affine, out), x},
                           l.scratch + 2 * s.channels, l.stream);
            apply<T>(s, operand<T>(l, 0), x, out, l.stream);
          },
          2 * s.channels + cut.scratch(2)};
}

template <typename T>
Prepared batch_norm_statistics(const Call& c) {
  const Channels s(c);
  const ColumnCut cut(s.rows(), s.channels);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            column_sums<2>(cut, Moments<T>{s, operand<T>(l, 1), o[2]}, KeepSums{o[0], s.channels}, l.scratch,
                           l.stream);
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

template <typename T>
struct GradientSums {
  Channels s;
  const T *x, *dy;
  const float* mean;
  __device__ void operator()(int64_t r, int64_t c, float (&out)[2]) const {
    const int64_t at = s.at(r, c);
    const float d = load(dy + at);
    out[0] = d * (load(x + at) - mean[c]);
    out[1] = d;
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
  const ColumnCut cut(s.rows(), s.channels);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            column_sums<2>(cut, GradientSums<T>{s, operand<T>(l, 2), operand<T>(l, 3), o[4]},
                           WriteSums{o[0], o[1], o[5]}, l.scratch, l.stream);
          },
          cut.scratch(2)};
}

/// dx = dy fy + x fx + one, per channel: scale / deviation (dy - mean(dy) - xhat mean(dy xhat)).
struct Factors {
  float *fy, *fx, *one;
};
__global__ void factors_kernel(int64_t channels, float share, const float* mean, const float* deviation,
                               const float* dscale, const float* dshift, const float* scale, Factors out) {
  const int64_t c = global_index();
  if (c >= channels) return;
  const float fy = deviation[c] * (scale != nullptr ? scale[c] : 1.0F),
              fx = -fy * dscale[c] * share * deviation[c];
  out.fy[c] = fy;
  out.fx[c] = fx;
  out.one[c] = -fy * dshift[c] * share - fx * mean[c];
}

template <typename T>
__global__ void backward_kernel(Channels s, T* dx, const T* x, const T* dy, Factors f) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = global_index(); i < s.count(); i += stride) {
    const int64_t c = s.channel(i);
    store(dx + i, load(dy + i) * f.fy[c] + load(x + i) * f.fx[c] + f.one[c]);
  }
}
template <typename T>
__global__ void backward_wide_kernel(int64_t packs, int64_t packs_of_row, T* dx, const T* x, const T* dy,
                                     Factors f) {
  const int64_t i = global_index();
  if (i >= packs) return;
  const int64_t c = i % packs_of_row * kWide<T>;
  const Pack<T> a = reinterpret_cast<const Pack<T>*>(dy)[i], b = reinterpret_cast<const Pack<T>*>(x)[i];
  Pack<T> out;
#pragma unroll
  for (int k = 0; k < kWide<T>; ++k)
    store(&out.v[k], load(&a.v[k]) * f.fy[c + k] + load(&b.v[k]) * f.fx[c + k] + f.one[c + k]);
  reinterpret_cast<Pack<T>*>(dx)[i] = out;
}

template <typename T>
void apply_backward(const Channels& s, T* dx, const T* x, const T* dy, const Factors& f, Stream stream) {
  if (wide_rows<T>(s) && wide_aligned(dx) && wide_aligned(x) && wide_aligned(dy)) {
    const int64_t packs = s.count() / kWide<T>;
    launch(backward_wide_kernel<T>, blocks_for(packs), kThreads, stream, packs, s.channels / kWide<T>, dx, x,
           dy, f);
  } else {
    launch(backward_kernel<T>, std::min(16384U, blocks_for(s.count())), kThreads, stream, s, dx, x, dy, f);
  }
}

template <typename T>
Prepared batch_norm_backward(const Call& c) {
  const Channels s(c);
  const bool affine = c.operands.size() > 7;
  const float share = 1 / static_cast<float>(s.all_rows());
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            const Factors f{l.scratch, l.scratch + s.channels, l.scratch + 2 * s.channels};
            launch(factors_kernel, blocks_for(s.channels), kThreads, l.stream, s.channels, share, o[3], o[4],
                   o[5], o[6], affine ? o[7] : nullptr, f);
            apply_backward<T>(s, operand<T>(l, 0), operand<T>(l, 1), operand<T>(l, 2), f, l.stream);
          },
          3 * s.channels};
}

}  // namespace

void add_batch_norm(Table& t) {
  set(t, Function::batch_norm, batch_norm<float>, batch_norm<Bf16>, batch_norm<Fp16>, half_operands<0, 1>);
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

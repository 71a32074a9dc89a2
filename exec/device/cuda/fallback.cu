// SPDX-License-Identifier: Apache-2.0
// Products and convolutions by our own kernels: exact for every geometry. They stand in where a library has
// none, and wherever there is no library, as in the tests.
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

constexpr int kTile = 16;

template <typename Y, typename T>
__global__ void product_kernel(Product p, Y* c, const T* a, const T* b, const Y* bias) {
  __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.y,
                column = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  a += blockIdx.z * p.stride_a;
  b += blockIdx.z * p.stride_b;
  float sum = 0;
  for (int64_t begin = 0; begin < p.k; begin += kTile) {
    const int64_t ka = begin + threadIdx.x, kb = begin + threadIdx.y;
    left[threadIdx.y][threadIdx.x] =
        row < p.m && ka < p.k ? load(a + (p.transpose_a ? ka * p.lda + row : row * p.lda + ka)) : 0;
    right[threadIdx.y][threadIdx.x] =
        column < p.n && kb < p.k ? load(b + (p.transpose_b ? column * p.ldb + kb : kb * p.ldb + column)) : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row >= p.m || column >= p.n) return;
  Y* to = c + blockIdx.z * p.stride_c + row * p.ldc + column;
  if (bias != nullptr) sum += load(bias + column);
  store(to, p.beta != 0 ? p.beta * load(to) + sum : sum);
}

template <typename Y, typename T>
void run_product(const Product& p, Y* c, const T* a, const T* b, const Y* bias, Stream stream) {
  // Rows of tiles beyond what a grid holds are made in several launches.
  constexpr int64_t kMostRows = static_cast<int64_t>(65535) * kTile;
  for (int64_t first = 0; first < p.m; first += kMostRows) {
    Product part = p;
    part.m = std::min(kMostRows, p.m - first);
    launch(product_kernel<Y, T>,
           dim3(blocks_for(p.n, kTile), blocks_for(part.m, kTile), static_cast<unsigned>(p.batch)),
           dim3(kTile, kTile), stream, part, c + first * p.ldc, a + (p.transpose_a ? first : first * p.lda),
           b, bias);
  }
}

/// Where there is a bias, it is the last operand, stored as the output is.
template <typename Y>
const Y* bias_of(const Launch& l, bool bias) {
  return bias ? operand<Y>(l, 3) : nullptr;
}

template <typename Y, typename T>
Prepared gemm(const Call& c) {
  const Product p(c);
  const bool bias = c.operands.size() > 3;
  return {[=](const Launch& l) {
    run_product<Y, T>(p, operand<Y>(l, 0), operand<T>(l, 1), operand<T>(l, 2), bias_of<Y>(l, bias), l.stream);
  }};
}

/// A convolution joins positions near * stride - pad + tap * dilation = far, where "far" is the side that the
/// kernel slides over: the input, or the output of a transposed one.
struct Conv {
  int64_t batch, in_channels, out_channels, gi, go, volume;
  int64_t near[3], far[3], kernel[3], stride[3], dilation[3], pad[3];
  bool transposed, last;

  explicit Conv(const Call& c) {
    const ConvShape s = ConvShape::unpack({c.shape.begin(), c.shape.end() - 1});
    last = c.shape.back() != 0;
    batch = s.batch;
    in_channels = s.in_channels;
    out_channels = s.out_channels;
    gi = s.in_channels / s.groups;
    go = s.out_channels / s.groups;
    transposed = s.transposed;
    volume = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      near[d] = transposed ? s.in[d] : s.out[d];
      far[d] = transposed ? s.out[d] : s.in[d];
      kernel[d] = s.kernel[d];
      stride[d] = s.stride[d];
      dilation[d] = s.dilation[d];
      pad[d] = s.pad[d];
      volume *= s.kernel[d];
    }
  }
  __host__ __device__ static int64_t size(const int64_t (&space)[3]) {
    return space[0] * space[1] * space[2];
  }
  __host__ __device__ int64_t nears() const { return size(near); }
  __host__ __device__ int64_t fars() const { return size(far); }
  /// Element of a tensor of that many channels and positions.
  __device__ int64_t at(int64_t image, int64_t channel, int64_t position, int64_t channels,
                        int64_t positions) const {
    return last ? (image * positions + position) * channels + channel
                : (image * channels + channel) * positions + position;
  }
  /// The position that tap t joins to `position`, or -1. To the far side it follows; to the near one it must
  /// divide.
  __device__ int64_t joined(int64_t position, int64_t t, bool to_far) const {
    const int64_t(&from)[3] = to_far ? near : far;
    const int64_t(&to)[3] = to_far ? far : near;
    int64_t out = 0;
    for (int d = 0; d < 3; ++d) {
      int64_t inner = 1, taps = 1;
      for (int e = d + 1; e < 3; ++e) {
        inner *= from[e];
        taps *= kernel[e];
      }
      const int64_t x = position / inner % from[d], tap = t / taps % kernel[d];
      int64_t y;
      if (to_far) {
        y = x * stride[d] - pad[d] + tap * dilation[d];
      } else {
        const int64_t y_stride = x + pad[d] - tap * dilation[d];
        if (y_stride < 0 || y_stride % stride[d] != 0) return -1;
        y = y_stride / stride[d];
      }
      if (y < 0 || y >= to[d]) return -1;
      out = out * to[d] + y;
    }
    return out;
  }
};

/// Element i of y: from x and w.
template <typename Y, typename T>
__global__ void conv_kernel(Conv s, int64_t count, Y* y, const T* x, const T* w, const Y* bias) {
  const int64_t i = global_index();
  if (i >= count) return;
  const int64_t xs = s.transposed ? s.nears() : s.fars(), ys = s.transposed ? s.fars() : s.nears();
  const int64_t channel = s.last ? i % s.out_channels : i / ys % s.out_channels;
  const int64_t position = s.last ? i / s.out_channels % ys : i % ys, image = i / s.out_channels / ys;
  float sum = bias != nullptr ? load(bias + channel) : 0;
  for (int64_t t = 0; t < s.volume; ++t) {
    const int64_t from = s.joined(position, t, !s.transposed);
    if (from < 0) continue;
    const T* weights = w + (channel * s.volume + t) * s.gi;
    for (int64_t c = 0; c < s.gi; ++c)
      sum += load(x + s.at(image, channel / s.go * s.gi + c, from, s.in_channels, xs)) * load(weights + c);
  }
  store(y + i, sum);
}

/// Element i of dx: from dy and w.
template <typename Y, typename T>
__global__ void conv_data_kernel(Conv s, int64_t count, Y* dx, const T* dy, const T* w) {
  const int64_t i = global_index();
  if (i >= count) return;
  const int64_t xs = s.transposed ? s.nears() : s.fars(), ys = s.transposed ? s.fars() : s.nears();
  const int64_t channel = s.last ? i % s.in_channels : i / xs % s.in_channels;
  const int64_t position = s.last ? i / s.in_channels % xs : i % xs, image = i / s.in_channels / xs;
  const int64_t first = channel / s.gi * s.go;
  float sum = 0;
  for (int64_t t = 0; t < s.volume; ++t) {
    const int64_t from = s.joined(position, t, s.transposed);
    if (from < 0) continue;
    for (int64_t o = first; o < first + s.go; ++o)
      sum += load(dy + s.at(image, o, from, s.out_channels, ys)) *
             load(w + (o * s.volume + t) * s.gi + channel % s.gi);
  }
  store(dx + i, sum);
}

/// One block a weight.
template <typename T>
__global__ void conv_weights_kernel(Conv s, float* dw, const T* x, const T* dy) {
  const int64_t i = blockIdx.x;
  const int64_t c = i % s.gi, t = i / s.gi % s.volume, o = i / s.gi / s.volume, nears = s.nears();
  const int64_t xs = s.transposed ? nears : s.fars(), ys = s.transposed ? s.fars() : nears;
  float sum[1] = {0};
  for (int64_t k = threadIdx.x; k < s.batch * nears; k += blockDim.x) {
    const int64_t image = k / nears, near = k % nears, far = s.joined(near, t, true);
    if (far < 0) continue;
    const int64_t px = s.transposed ? near : far, py = s.transposed ? far : near;
    sum[0] += load(x + s.at(image, o / s.go * s.gi + c, px, s.in_channels, xs)) *
              load(dy + s.at(image, o, py, s.out_channels, ys));
  }
  block_sum(sum);
  if (threadIdx.x == 0) dw[i] = sum[0];
}

template <typename Y, typename T>
Prepared conv(const Call& c) {
  const Conv s(c);
  const int64_t n = s.batch * s.out_channels * (s.transposed ? s.fars() : s.nears());
  const bool bias = c.operands.size() > 3;
  return {[=](const Launch& l) {
    launch(conv_kernel<Y, T>, blocks_for(n), kThreads, l.stream, s, n, operand<Y>(l, 0), operand<T>(l, 1),
           operand<T>(l, 2), bias_of<Y>(l, bias));
  }};
}

template <typename Y, typename T>
Prepared conv_backward_data(const Call& c) {
  const Conv s(c);
  const int64_t n = s.batch * s.in_channels * (s.transposed ? s.nears() : s.fars());
  return {[=](const Launch& l) {
    launch(conv_data_kernel<Y, T>, blocks_for(n), kThreads, l.stream, s, n, operand<Y>(l, 0),
           operand<T>(l, 1), operand<T>(l, 2));
  }};
}

template <typename T>
Prepared conv_backward_weights(const Call& c) {
  const Conv s(c);
  const auto weights = static_cast<unsigned>(s.out_channels * s.volume * s.gi);
  const unsigned threads = std::min(256U, row_threads(s.batch * s.nears()));
  return {[=](const Launch& l) {
    launch(conv_weights_kernel<T>, weights, threads, l.stream, s, l.operands[0], operand<T>(l, 1),
           operand<T>(l, 2));
  }};
}

template <typename T>
__global__ void bias_kernel(int64_t count, int64_t channels, int64_t inner, T* y, const T* bias) {
  const int64_t i = global_index();
  if (i < count) store(y + i, load(y + i) + load(bias + i / inner % channels));
}
template <typename T>
__global__ void bias_wide_kernel(int64_t packs, int64_t packs_of_row, T* y, const T* bias) {
  const int64_t i = global_index();
  if (i >= packs) return;
  const Pack<T> b = reinterpret_cast<const Pack<T>*>(bias)[i % packs_of_row];
  Pack<T> v = reinterpret_cast<Pack<T>*>(y)[i];
#pragma unroll
  for (int k = 0; k < kWide<T>; ++k) store(&v.v[k], load(&v.v[k]) + load(&b.v[k]));
  reinterpret_cast<Pack<T>*>(y)[i] = v;
}

template <typename T>
void add_bias_of(T* y, const T* bias, int64_t count, int64_t channels, int64_t positions, bool last,
                 Stream stream) {
  const int64_t wide = kWide<T>;
  if (last && channels % wide == 0 && wide_aligned(y) && wide_aligned(bias))
    launch(bias_wide_kernel<T>, blocks_for(count / wide), kThreads, stream, count / wide, channels / wide, y,
           bias);
  else
    launch(bias_kernel<T>, blocks_for(count), kThreads, stream, count, channels, last ? 1 : positions, y,
           bias);
}

template <typename Y, typename T>
Prepared plain_of(const Call& c) {
  if (c.function == Function::gemm) return gemm<Y, T>(c);
  if (c.function == Function::conv) return conv<Y, T>(c);
  if (c.function == Function::conv_backward_data) return conv_backward_data<Y, T>(c);
  TANDEM_CHECK(c.function == Function::conv_backward_weights && !c.half(0));
  return conv_backward_weights<T>(c);
}

}  // namespace

Product::Product(const Call& c)
    : transpose_a(c.shape[3] != 0),
      transpose_b(c.shape[4] != 0),
      m(c.shape[0]),
      n(c.shape[1]),
      k(c.shape[2]),
      lda(transpose_a ? m : k),
      ldb(transpose_b ? k : n),
      ldc(n),
      beta(c.shape[5] != 0 ? 1.0F : 0.0F) {}

Prepared fallback_half(const Call& call, Precision precision) {
  TANDEM_CHECK(is_half(precision));
  if (precision == Precision::fp16)
    return call.half(0) ? plain_of<Fp16, Fp16>(call) : plain_of<float, Fp16>(call);
  return call.half(0) ? plain_of<Bf16, Bf16>(call) : plain_of<float, Bf16>(call);
}

void add_bias(void* y, const void* bias, Precision stored, int64_t batch, int64_t channels, int64_t positions,
              bool last, Stream stream) {
  const auto add = [&](auto* to, const auto* from) {
    add_bias_of(to, from, batch * channels * positions, channels, positions, last, stream);
  };
  if (stored == Precision::bf16)
    add(static_cast<Bf16*>(y), static_cast<const Bf16*>(bias));
  else if (stored == Precision::fp16)
    add(static_cast<Fp16*>(y), static_cast<const Fp16*>(bias));
  else
    add(static_cast<float*>(y), static_cast<const float*>(bias));
}

RunProduct fallback_product(const Product& p) {
  return [p](float* c, const float* a, const float* b, const Launch& l) {
    run_product<float, float>(p, c, a, b, nullptr, l.stream);
  };
}

MakeProduct& make_product() {
  thread_local MakeProduct make = fallback_product;
  return make;
}

void add_fallback(Table& t) {
  set(t, Function::gemm, gemm<float, float>);
  set(t, Function::conv, conv<float, float>);
  set(t, Function::conv_backward_data, conv_backward_data<float, float>);
  set(t, Function::conv_backward_weights, conv_backward_weights<float>);
}

}  // namespace tandem::exec::cuda

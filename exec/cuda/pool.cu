// Pooling: one thread an output element, or an input element on the way back, which asks the windows that
// cover it.
#include "exec/cuda/device.h"

namespace tandem::cuda {

namespace {

/// Shape as packed in exec/passes/pool.cpp. Windows are adaptive where the stride is 0.
struct Pool {
  int64_t batch, channels;
  int64_t in[3], out[3], kernel[3], stride[3], pad[3];
  bool counts_padding, last;

  explicit Pool(const Call& c) {
    auto at = c.shape.begin();
    batch = *at++;
    channels = *at++;
    for (int64_t* s : {in, out, kernel, stride, pad}) {
      for (int d = 0; d < 3; ++d) s[d] = *at++;
    }
    counts_padding = *at++ != 0;
    last = *at++ != 0;
  }
  int64_t in_elements() const { return batch * channels * in[0] * in[1] * in[2]; }
  int64_t out_elements() const { return batch * channels * out[0] * out[1] * out[2]; }

  struct Place {
    int64_t image, channel, at[3];
  };
  /// Of element i of a tensor with that space.
  __device__ Place place(int64_t i, const int64_t (&space)[3]) const {
    Place p;
    const int64_t positions = space[0] * space[1] * space[2];
    int64_t position;
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
  __device__ int64_t element(const Place& p, int64_t position, const int64_t (&space)[3]) const {
    const int64_t positions = space[0] * space[1] * space[2];
    return last ? (p.image * positions + position) * channels + p.channel
                : (p.image * channels + p.channel) * positions + position;
  }

  struct Range {
    int64_t begin, end, whole;  ///< clipped to the input; size before clipping
  };
  /// Inputs of window `o` along dimension d.
  __device__ Range window(int d, int64_t o) const {
    if (stride[d] == 0) {
      const int64_t b = o * in[d] / out[d], e = ((o + 1) * in[d] + out[d] - 1) / out[d];
      return {b, e, e - b};
    }
    const int64_t b = o * stride[d] - pad[d];
    const int64_t e = b + kernel[d] < in[d] + pad[d] ? b + kernel[d] : in[d] + pad[d];
    return {b > 0 ? b : 0, e < in[d] ? e : in[d], e - b};
  }
  /// Windows that cover input i along dimension d: outputs [begin, end).
  __device__ Range covering(int d, int64_t i) const {
    int64_t b, e;
    if (stride[d] == 0) {
      b = i * out[d] / in[d];
      e = ((i + 1) * out[d] + in[d] - 1) / in[d];
    } else {
      const int64_t first = i + pad[d] - kernel[d] + 1;
      b = first <= 0 ? 0 : (first + stride[d] - 1) / stride[d];
      e = (i + pad[d]) / stride[d] + 1;
    }
    return {b, e < out[d] ? e : out[d], 0};
  }
  __device__ float share(const Range (&r)[3], float scale) const {
    const int64_t size = counts_padding
                             ? r[0].whole * r[1].whole * r[2].whole
                             : (r[0].end - r[0].begin) * (r[1].end - r[1].begin) * (r[2].end - r[2].begin);
    return scale / static_cast<float>(size);
  }
};

template <typename T>
__global__ void max_pool_kernel(Pool p, int64_t count, T* y, const T* x, int32_t* where) {
  const int64_t i = global_index();
  if (i >= count) return;
  const Pool::Place to = p.place(i, p.out);
  const Pool::Range z = p.window(0, to.at[0]), r = p.window(1, to.at[1]), c = p.window(2, to.at[2]);
  float most = -3.402823466e38F;
  int64_t best = 0;
  for (int64_t a = z.begin; a < z.end; ++a)
    for (int64_t b = r.begin; b < r.end; ++b)
      for (int64_t k = c.begin; k < c.end; ++k) {
        const int64_t position = (a * p.in[1] + b) * p.in[2] + k;
        const float v = load(x + p.element(to, position, p.in));
        if (v > most) {
          most = v;
          best = position;
        }
      }
  store(y + i, most);
  where[i] = static_cast<int32_t>(best);
}

/// Sums in the order of the windows, whatever the timing.
template <typename T>
__global__ void max_pool_backward_kernel(Pool p, int64_t count, T* dx, const T* dy, const int32_t* where) {
  const int64_t i = global_index();
  if (i >= count) return;
  const Pool::Place at = p.place(i, p.in);
  const int64_t mine = (at.at[0] * p.in[1] + at.at[1]) * p.in[2] + at.at[2];
  const Pool::Range z = p.covering(0, at.at[0]), r = p.covering(1, at.at[1]), c = p.covering(2, at.at[2]);
  float sum = 0;
  for (int64_t a = z.begin; a < z.end; ++a)
    for (int64_t b = r.begin; b < r.end; ++b)
      for (int64_t k = c.begin; k < c.end; ++k) {
        const int64_t o = p.element(at, (a * p.out[1] + b) * p.out[2] + k, p.out);
        if (where[o] == mine) sum += load(dy + o);
      }
  store(dx + i, sum);
}

template <typename T>
__global__ void avg_pool_kernel(Pool p, int64_t count, float scale, T* y, const T* x) {
  const int64_t i = global_index();
  if (i >= count) return;
  const Pool::Place to = p.place(i, p.out);
  const Pool::Range r[3] = {p.window(0, to.at[0]), p.window(1, to.at[1]), p.window(2, to.at[2])};
  float sum = 0;
  for (int64_t a = r[0].begin; a < r[0].end; ++a)
    for (int64_t b = r[1].begin; b < r[1].end; ++b)
      for (int64_t k = r[2].begin; k < r[2].end; ++k)
        sum += load(x + p.element(to, (a * p.in[1] + b) * p.in[2] + k, p.in));
  store(y + i, sum * p.share(r, scale));
}

template <typename T>
__global__ void avg_pool_backward_kernel(Pool p, int64_t count, float scale, T* dx, const T* dy) {
  const int64_t i = global_index();
  if (i >= count) return;
  const Pool::Place at = p.place(i, p.in);
  const Pool::Range z = p.covering(0, at.at[0]), r = p.covering(1, at.at[1]), c = p.covering(2, at.at[2]);
  float sum = 0;
  for (int64_t a = z.begin; a < z.end; ++a)
    for (int64_t b = r.begin; b < r.end; ++b)
      for (int64_t k = c.begin; k < c.end; ++k) {
        const Pool::Range window[3] = {p.window(0, a), p.window(1, b), p.window(2, k)};
        sum += p.share(window, scale) * load(dy + p.element(at, (a * p.out[1] + b) * p.out[2] + k, p.out));
      }
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

Prepared max_pool(const Call& c) {
  const Pool p(c);
  const int64_t n = p.out_elements();
  return {[=](const Launch& l) {
    launch(max_pool_kernel<float>, blocks_for(n), kThreads, l.stream, p, n, l.operands[0], l.operands[1],
           reinterpret_cast<int32_t*>(l.operands[2]));
  }};
}

Prepared max_pool_backward(const Call& c) {
  const Pool p(c);
  const int64_t n = p.in_elements();
  return {[=](const Launch& l) {
    launch(max_pool_backward_kernel<float>, blocks_for(n), kThreads, l.stream, p, n, l.operands[0],
           l.operands[1], reinterpret_cast<const int32_t*>(l.operands[2]));
  }};
}

Prepared avg_pool(const Call& c) {
  const Pool p(c);
  const float scale = scale_of(c);
  const int64_t n = p.out_elements(), positions = p.in[0] * p.in[1] * p.in[2];
  bool whole = p.last && p.batch < 65536;
  for (int d = 0; d < 3; ++d)
    whole = whole && p.out[d] == 1 && p.pad[d] == 0 && (p.stride[d] == 0 || p.kernel[d] == p.in[d]);
  if (whole) {
    const float share = scale / static_cast<float>(positions);
    return {[=](const Launch& l) {
      launch(mean_kernel<float>, dim3(blocks_for(p.channels, kWarp), static_cast<unsigned>(p.batch)),
             dim3(kWarp, kTileRows), l.stream, p.channels, positions, share, l.operands[0], l.operands[1]);
    }};
  }
  return {[=](const Launch& l) {
    launch(avg_pool_kernel<float>, blocks_for(n), kThreads, l.stream, p, n, scale, l.operands[0],
           l.operands[1]);
  }};
}

Prepared avg_pool_backward(const Call& c) {
  const Pool p(c);
  const float scale = scale_of(c);
  const int64_t n = p.in_elements();
  return {[=](const Launch& l) {
    launch(avg_pool_backward_kernel<float>, blocks_for(n), kThreads, l.stream, p, n, scale, l.operands[0],
           l.operands[1]);
  }};
}

}  // namespace

void add_pool(Table& t) {
  set(t, Function::max_pool, max_pool);
  set(t, Function::max_pool_backward, max_pool_backward);
  set(t, Function::avg_pool, avg_pool);
  set(t, Function::avg_pool_backward, avg_pool_backward);
}

}  // namespace tandem::cuda

// SPDX-License-Identifier: Apache-2.0
// Strided copies, sums and products. Sums into an output that repeats are made by one block each 32 outputs,
// in order.
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

/// Index arithmetic of N operands over one set of dimensions.
template <int N>
struct Walk {
  int dims = 0;
  int64_t count = 1;
  int64_t sizes[Strided::kMostDims] = {}, strides[N][Strided::kMostDims] = {};

  void add(int64_t size, const std::vector<std::vector<int64_t>>& from, std::size_t d) {
    sizes[dims] = size;
    for (int o = 0; o < N; ++o) strides[o][dims] = from[static_cast<std::size_t>(o)][d];
    ++dims;
    count *= size;
  }
  /// Adds the place of element `i` to each operand's.
  __device__ void move(int64_t i, int64_t (&at)[N]) const {
    for (int d = dims - 1; d > 0; --d) {
      const int64_t next = i / sizes[d], index = i - next * sizes[d];
      for (int o = 0; o < N; ++o) at[o] += index * strides[o][d];
      i = next;
    }
    if (dims > 0) {
      for (int o = 0; o < N; ++o) at[o] += i * strides[o][0];
    }
  }
};

/// `T`: of the inputs; the output may be stored otherwise.
template <typename T>
struct Copied {
  using Input = T;
  static constexpr int kOperands = 2;
  __device__ float operator()(const T* a, const T*, const int64_t (&at)[2]) const { return load(a + at[1]); }
};
template <typename T>
struct Multiplied {
  using Input = T;
  static constexpr int kOperands = 3;
  __device__ float operator()(const T* a, const T* b, const int64_t (&at)[3]) const {
    return load(a + at[1]) * load(b + at[2]);
  }
};

template <typename F, typename Y, typename T = typename F::Input, int N = F::kOperands>
__global__ void each_kernel(Walk<N> walk, bool adds, F f, Y* y, const T* a, const T* b) {
  const int64_t i = global_index();
  if (i >= walk.count) return;
  int64_t at[N] = {};
  walk.move(i, at);
  const float v = f(a, b, at);
  store(y + at[0], adds ? load(y + at[0]) + v : v);
}

/// `kept` walks the outputs, `summed` what each is the sum of.
template <typename F, typename Y, typename T = typename F::Input, int N = F::kOperands>
__global__ void summed_kernel(Walk<N> kept, Walk<N> summed, F f, Y* y, const T* a, const T* b) {
  __shared__ float part[kTileRows][kWarp];
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  int64_t base[N] = {};
  float sum = 0;
  if (i < kept.count) {
    kept.move(i, base);
    for (int64_t k = threadIdx.y; k < summed.count; k += kTileRows) {
      int64_t at[N];
      for (int o = 0; o < N; ++o) at[o] = base[o];
      summed.move(k, at);
      sum += f(a, b, at);
    }
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= kept.count) return;
  float total = 0;
  for (int r = 0; r < kTileRows; ++r) total += part[r][threadIdx.x];
  store(y + base[0], load(y + base[0]) + total);
}

template <typename Y, typename F>
Prepared strided(const Call& c, F f) {
  using T = typename F::Input;
  constexpr int N = F::kOperands;
  const Strided s = Strided::unpack(c.shape, N).simplified();
  Walk<N> all, kept, summed;
  for (std::size_t d = 0; d < s.sizes.size(); ++d) {
    all.add(s.sizes[d], s.strides, d);
    const bool sums = s.adds && s.strides[0][d] == 0 && s.sizes[d] > 1;
    (sums ? summed : kept).add(s.sizes[d], s.strides, d);
  }
  const bool adds = s.adds;
  const int64_t y = s.offsets[0], a = s.offsets[1], b = N > 2 ? s.offsets.back() : 0;
  return {[=](const Launch& l) {
    Y* to = operand<Y>(l, 0) + y;
    const T *first = operand<T>(l, 1) + a, *second = N > 2 ? operand<T>(l, 2) + b : nullptr;
    if (summed.dims > 0)
      launch(summed_kernel<F, Y>, blocks_for(kept.count, kWarp), dim3(kWarp, kTileRows), l.stream, kept,
             summed, f, to, first, second);
    else
      launch(each_kernel<F, Y>, blocks_for(all.count), kThreads, l.stream, all, adds, f, to, first, second);
  }};
}

template <typename Y, typename T>
Prepared move(const Call& c) {
  return strided<Y>(c, Copied<T>{});
}
/// Between activations, to them from a parameter, or from them to a parameter's gradient.
template <typename H>
Prepared move_half(const Call& c) {
  if (c.half(0) && c.half(1)) return move<H, H>(c);
  return c.half(0) ? move<H, float>(c) : move<float, H>(c);
}
template <typename T>
Prepared product(const Call& c) {
  return strided<T>(c, Multiplied<T>{});
}

}  // namespace

void add_strided(Table& t) {
  set(t, Function::move, move<float, float>, move_half<Bf16>, move_half<Fp16>, half_mask);
  set(t, Function::product, product<float>, product<Bf16>, product<Fp16>, half_operands<0, 1, 2>);
}

}  // namespace tandem::exec::cuda

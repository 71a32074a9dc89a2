// SPDX-License-Identifier: Apache-2.0
// Strided copies, sums and products. Where neighbours stay together, several are moved at once: up to 16
// bytes as they are, four elements that are converted, added or multiplied. Sums into an output that repeats
// are made by one block each 32 outputs, in order.
#include <type_traits>

#include "exec/device/cuda/divisor.h"
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

/// Index arithmetic of N operands over one set of dimensions, in numbers of type I.
template <int N, typename I = int64_t>
struct Walk {
  int dims = 0;
  I count = 1;
  Divisor<I> sizes[Strided::kMostDims];
  I strides[N][Strided::kMostDims] = {};

  void add(int64_t size, const std::vector<std::vector<int64_t>>& from, std::size_t d) {
    sizes[dims] = Divisor<I>(static_cast<I>(size));
    for (int o = 0; o < N; ++o) strides[o][dims] = static_cast<I>(from[static_cast<std::size_t>(o)][d]);
    ++dims;
    count *= static_cast<I>(size);
  }
  /// Adds the places of elements `i`, which it uses up, to each operand's.
  template <int K>
  __device__ void move(I (&i)[K], I (&at)[K][N]) const {
    for (int d = dims - 1; d > 0; --d) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const I next = sizes[d].quotient(i[k]), index = i[k] - next * sizes[d].by;
#pragma unroll
        for (int o = 0; o < N; ++o) at[k][o] += index * strides[o][d];
        i[k] = next;
      }
    }
    if (dims == 0) return;
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int o = 0; o < N; ++o) at[k][o] += i[k] * strides[o][0];
    }
  }
};

/// `T`: of the inputs; the output may be stored otherwise. Groups of W neighbours.
template <typename T>
struct Copied {
  using Input = T;
  static constexpr int kOperands = 2;
  template <int W, typename I>
  __device__ void operator()(const T* a, const T*, const I (&at)[2], float (&out)[W]) const {
    load_neighbours(a + int64_t{at[1]} * W, out);
  }
};
template <typename T>
struct Multiplied {
  using Input = T;
  static constexpr int kOperands = 3;
  template <int W, typename I>
  __device__ void operator()(const T* a, const T* b, const I (&at)[3], float (&out)[W]) const {
    float factor[W];
    load_neighbours(a + int64_t{at[1]} * W, out);
    load_neighbours(b + int64_t{at[2]} * W, factor);
#pragma unroll
    for (int w = 0; w < W; ++w) out[w] *= factor[w];
  }
};

/// Pieces that a thread reads before it writes any: they wait for memory together.
constexpr int kPieces = 4;
/// The first of the thread's pieces; the others follow a block's threads apart.
template <typename I>
__device__ I first_piece() {
  return static_cast<I>(blockIdx.x) * (blockDim.x * kPieces) + threadIdx.x;
}

/// Numbers as they are. P: as many bytes as are moved at once.
template <typename P>
__global__ void __launch_bounds__(kThreads) copy_kernel(Walk<2, uint32_t> walk, P* y, const P* x) {
  const uint32_t first = first_piece<uint32_t>();
  uint32_t i[kPieces], at[kPieces][2] = {};
#pragma unroll
  for (int k = 0; k < kPieces; ++k) i[k] = first + k * blockDim.x;
  walk.move(i, at);
  P v[kPieces];
#pragma unroll
  for (int k = 0; k < kPieces; ++k) {
    if (first + k * blockDim.x < walk.count) v[k] = x[at[k][1]];
  }
#pragma unroll
  for (int k = 0; k < kPieces; ++k) {
    if (first + k * blockDim.x < walk.count) y[at[k][0]] = v[k];
  }
}

/// Pieces of W elements.
template <int W, typename I, typename F, typename Y, typename T = typename F::Input, int N = F::kOperands>
__global__ void __launch_bounds__(kThreads)
    each_kernel(Walk<N, I> walk, bool adds, F f, Y* y, const T* a, const T* b) {
  const I first = first_piece<I>();
  I i[kPieces], at[kPieces][N] = {};
#pragma unroll
  for (int k = 0; k < kPieces; ++k) i[k] = first + k * blockDim.x;
  walk.move(i, at);
  float v[kPieces][W], sum[kPieces][W] = {};
#pragma unroll
  for (int k = 0; k < kPieces; ++k) {
    if (first + k * blockDim.x >= walk.count) continue;
    f(a, b, at[k], v[k]);
    if (adds) load_neighbours(y + int64_t{at[k][0]} * W, sum[k]);
  }
#pragma unroll
  for (int k = 0; k < kPieces; ++k) {
    if (first + k * blockDim.x >= walk.count) continue;
#pragma unroll
    for (int w = 0; w < W; ++w) v[k][w] = adds ? sum[k][w] + v[k][w] : v[k][w];
    store_neighbours(y + int64_t{at[k][0]} * W, v[k]);
  }
}

/// `kept` walks the outputs, `summed` what each is the sum of.
template <typename F, typename Y, typename T = typename F::Input, int N = F::kOperands>
__global__ void summed_kernel(Walk<N> kept, Walk<N> summed, F f, Y* y, const T* a, const T* b) {
  __shared__ float part[kTileRows][kWarp];
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  int64_t base[1][N] = {};
  float sum = 0;
  if (i < kept.count) {
    int64_t output[1] = {i};
    kept.move(output, base);
    for (int64_t k = threadIdx.y; k < summed.count; k += kTileRows) {
      int64_t term[1] = {k}, at[1][N];
      for (int o = 0; o < N; ++o) at[0][o] = base[0][o];
      summed.move(term, at);
      float v[1];
      f(a, b, at[0], v);
      sum += v[0];
    }
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= kept.count) return;
  float total = 0;
  for (int r = 0; r < kTileRows; ++r) total += part[r][threadIdx.x];
  store(y + base[0][0], load(y + base[0][0]) + total);
}

/// The same if there are enough outputs for each thread to sum W of them alone.
template <int W, typename F, typename Y, typename T = typename F::Input, int N = F::kOperands>
__global__ void __launch_bounds__(kThreads)
    alone_kernel(Walk<N, uint32_t> kept, Walk<N, uint32_t> summed, F f, Y* y, const T* a, const T* b) {
  uint32_t i[1] = {blockIdx.x * blockDim.x + threadIdx.x}, base[1][N] = {};
  if (i[0] >= kept.count) return;
  kept.move(i, base);
  float sum[W];
  load_neighbours(y + int64_t{base[0][0]} * W, sum);
#pragma unroll 4
  for (uint32_t k = 0; k < summed.count; ++k) {
    uint32_t term[1] = {k}, at[1][N];
#pragma unroll
    for (int o = 0; o < N; ++o) at[0][o] = base[0][o];
    summed.move(term, at);
    float v[W];
    f(a, b, at[0], v);
#pragma unroll
    for (int w = 0; w < W; ++w) sum[w] += v[w];
  }
  store_neighbours(y + int64_t{base[0][0]} * W, sum);
}

/// Most elements that can be moved at once, a power of two up to `most`: they lie side by side in every
/// operand, and all other steps are multiples of them.
int64_t neighbours_of(const Strided& s, int64_t most) {
  const std::size_t last = s.sizes.size() - 1;
  const auto fits = [&](int64_t wide) {
    if (s.sizes[last] % wide != 0) return false;
    for (const auto& strides : s.strides) {
      if (strides[last] != 1) return false;
      for (std::size_t d = 0; d < last; ++d) {
        if (strides[d] % wide != 0) return false;
      }
    }
    return true;
  };
  while (most > 1 && !fits(most)) most /= 2;
  return most;
}
/// The same in pieces of that many elements.
Strided in_pieces(Strided s, int64_t wide) {
  const std::size_t last = s.sizes.size() - 1;
  s.sizes[last] /= wide;
  for (auto& strides : s.strides) {
    for (std::size_t d = 0; d < last; ++d) strides[d] /= wide;
  }
  return s;
}
/// Places and numbers below 2^31.
bool is_short(const Strided& s) {
  constexpr int64_t kEnd = int64_t{1} << 31;
  int64_t count = 1;
  for (const int64_t size : s.sizes) count *= size;
  bool out = count < kEnd;
  for (const auto& strides : s.strides) {
    int64_t end = 1;
    for (std::size_t d = 0; d < s.sizes.size(); ++d) end += (s.sizes[d] - 1) * strides[d];
    out = out && end <= kEnd;
  }
  return out;
}
/// Can four be converted, added or multiplied at once?
template <typename... T>
bool in_fours(const Strided& s, const T*... at) {
  return neighbours_of(s, 4) == 4 && neighbours_at(4, at...) && is_short(in_pieces(s, 4));
}

/// Of outputs, and of what each is the sum of.
template <int N, typename I>
struct Walks {
  Walk<N, I> kept, summed;

  explicit Walks(const Strided& s) {
    for (std::size_t d = 0; d < s.sizes.size(); ++d) {
      if (s.sizes[d] == 1) continue;
      (s.adds && s.strides[0][d] == 0 ? summed : kept).add(s.sizes[d], s.strides, d);
    }
  }
};

/// Smaller blocks where those of kThreads would not be two a processor of a large chip.
template <typename W, typename... P, typename... A>
void launch_pieces(void (*kernel)(W, P...), Stream stream, const W& walk, A... arguments) {
  constexpr int64_t kBlocks = 264;
  const unsigned threads = walk.count >= kBlocks * kThreads * kPieces ? kThreads : kThreads / 4;
  const unsigned blocks = blocks_for(static_cast<int64_t>(walk.count), int64_t{threads} * kPieces);
  launch(kernel, blocks, threads, stream, walk, arguments...);
}

template <typename T>
void copy_pieces(const Strided& s, int64_t wide, T* y, const T* x, Stream stream) {
  const Walk walk = Walks<2, uint32_t>(s).kept;
  const auto copy = [&](auto piece) {
    using P = decltype(piece);
    launch_pieces(copy_kernel<P>, stream, walk, reinterpret_cast<P*>(y), reinterpret_cast<const P*>(x));
  };
  const auto bytes = static_cast<std::size_t>(wide) * sizeof(T);
  bytes == 16  ? copy(Neighbours<uint32_t, 4>{})
  : bytes == 8 ? copy(Neighbours<uint32_t, 2>{})
  : bytes == 4 ? copy(uint32_t{})
               : copy(uint16_t{});
}

/// Each output once.
template <typename Y, typename F, typename T = typename F::Input, int N = F::kOperands>
void each(const Strided& s, const F& f, Y* y, const T* a, const T* b, Stream stream) {
  if constexpr (std::is_same_v<F, Copied<Y>>) {
    int64_t wide = neighbours_of(s, kWide<T>);
    while (!neighbours_at(static_cast<int>(wide), y, a)) wide /= 2;
    const Strided pieces = in_pieces(s, wide);
    if (!s.adds && is_short(pieces)) return copy_pieces(pieces, wide, y, a, stream);
  }
  const auto run = [&](auto kernel, const auto& walks) {
    launch_pieces(kernel, stream, walks.kept, s.adds, f, y, a, b);
  };
  if (in_fours(s, y, a, b))
    run(each_kernel<4, uint32_t, F, Y>, Walks<N, uint32_t>(in_pieces(s, 4)));
  else if (is_short(s))
    run(each_kernel<1, uint32_t, F, Y>, Walks<N, uint32_t>(s));
  else
    run(each_kernel<1, int64_t, F, Y>, Walks<N, int64_t>(s));
}

/// Each output several times.
template <typename Y, typename F, typename T = typename F::Input, int N = F::kOperands>
void sums(const Strided& s, const F& f, Y* y, const T* a, const T* b, Stream stream) {
  constexpr int64_t kMany = 132 * kThreads;  // a block for each processor of a large chip
  if (in_fours(s, y, a, b)) {
    const Walks<N, uint32_t> fours(in_pieces(s, 4));
    if (fours.kept.count >= kMany)
      return launch(alone_kernel<4, F, Y>, blocks_for(int64_t{fours.kept.count}), kThreads, stream,
                    fours.kept, fours.summed, f, y, a, b);
  }
  const Walks<N, int64_t> all(s);
  launch(summed_kernel<F, Y>, blocks_for(all.kept.count, kWarp), dim3(kWarp, kTileRows), stream, all.kept,
         all.summed, f, y, a, b);
}

template <typename Y, typename F>
Prepared strided(const Call& c, F f) {
  using T = typename F::Input;
  constexpr int N = F::kOperands;
  const Strided s = Strided::unpack(c.shape, N).simplified();
  const bool sum = Walks<N, int64_t>(s).summed.dims > 0;
  return {[=](const Launch& l) {
    Y* y = operand<Y>(l, 0) + s.offsets[0];
    const T *a = operand<T>(l, 1) + s.offsets[1], *b = N > 2 ? operand<T>(l, 2) + s.offsets.back() : nullptr;
    sum ? sums(s, f, y, a, b, l.stream) : each(s, f, y, a, b, l.stream);
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

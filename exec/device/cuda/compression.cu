// SPDX-License-Identifier: Apache-2.0
// Gradients on their way in another form (schemes/step/compression.h). int8 and topk are the CPU's to the
// bit, but for which NaN a NaN is.
#include "exec/device/compression_shape.h"
#include "exec/device/cuda/powersgd.h"
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

/// A number below the least normal one counts as 0, as on processors (backends/cpu.cpp).
__device__ float normal(float v) {
  const uint32_t bits = to_bits(v);
  return (bits & 0x7f800000U) == 0 ? from_bits(bits & 0x80000000U) : v;
}
__device__ float add(float a, float b) { return normal(normal(a) + normal(b)); }
/// No multiplication is fused with the following addition: the processor rounds both.
__device__ float unscaled(float scale, int8_t number) { return __fmul_rn(scale, static_cast<float>(number)); }

struct Nothing {
  __device__ float operator()(float) const { return 0; }
};

// ---- int8 ----

/// A warp a scale. `given`: null without feedback.
__global__ void compress_int8_kernel(int64_t n, float* scales, int8_t* numbers, float* delta,
                                     const float* given) {
  constexpr int kOfLane = kScaledTogether / kWarp;
  const int64_t group = global_index() / kWarp,
                first = group * kScaledTogether + static_cast<int64_t>(threadIdx.x % kWarp);
  if (group * kScaledTogether >= n) return;  // the whole warp
  float v[kOfLane], largest = 0;
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int64_t i = first + k * kWarp;
    v[k] = i >= n ? 0 : given != nullptr ? add(delta[i], given[i]) : normal(delta[i]);
    largest = fmaxf(largest, finite(v[k]) ? fabsf(v[k]) : INFINITY);
  }
  for (int d = kWarp / 2; d > 0; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, d));
  const float scale = finite(largest) ? normal(largest / 127) : from_bits(0x7fc00000U);
  if (threadIdx.x % kWarp == 0) scales[group] = scale;
#pragma unroll
  for (int k = 0; k < kOfLane; ++k) {
    const int64_t i = first + k * kWarp;
    if (i >= n) return;
    const auto number = static_cast<int8_t>(scale > 0 ? static_cast<int>(rintf(v[k] / scale)) : 0);
    numbers[i] = number;
    if (given != nullptr) delta[i] = normal(v[k] - unscaled(scale, number));
  }
}

/// One thread four elements, which lie in a word of each message.
__global__ void decompress_int8_kernel(int64_t n, int64_t workers, int64_t message, int64_t scales,
                                       float* sum, const float* words) {
  const int64_t word = global_index(), first = word * 4;
  if (first >= n) return;
  float total[4] = {};
  for (int64_t w = 0; w < workers; ++w, words += message) {
    const float scale = words[first / kScaledTogether];
    const uint32_t bits = to_bits(words[scales + word]);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      total[k] = add(total[k], unscaled(scale, static_cast<int8_t>(bits >> (8 * k) & 0xffU)));
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k < n) sum[first + k] = total[k];
  }
}

Prepared compress_int8(const CompressionShape& s) {
  const int64_t n = s.elements, scales = s.scales();
  const bool feedback = s.feedback;
  return {[=](const Launch& l) {
    launch(compress_int8_kernel, blocks_for(scales, kThreads / kWarp), kThreads, l.stream, n, l.operands[0],
           reinterpret_cast<int8_t*>(l.operands[0] + scales), l.operands[1],
           feedback ? l.operands[2] : nullptr);
  }};
}

Prepared decompress_int8(const CompressionShape& s) {
  const int64_t n = s.elements, workers = s.workers, message = s.message, scales = s.scales();
  return {[=](const Launch& l) {
    launch(decompress_int8_kernel, blocks_for(n, 4 * kThreads), kThreads, l.stream, n, workers, message,
           scales, l.operands[0], l.operands[1]);
  }};
}

// ---- topk: a radix selection of the least magnitude that travels, by 11, 10 and 10 bits ----

constexpr int kPasses = 3, kBins = 2048;
constexpr int shift_of(int pass) { return 20 - 10 * pass; }
constexpr int64_t kChunk = 4096;  ///< elements of a block
/// What is known of the least that travels.
struct Least {
  unsigned bits;  ///< the first ones
  unsigned rest;  ///< number of elements to send that begin with them; in the end, of equal ones
};
/// How many are larger than the least that travels, and how many equal it.
struct Counts {
  unsigned larger, equal;
};
struct Scratch {
  unsigned* bins;  ///< [pass][bin]
  Least* least;
  Counts* before;  ///< [chunk]: of the chunk, then of all chunks before it
  explicit Scratch(const Launch& l)
      : bins(reinterpret_cast<unsigned*>(l.scratch)),
        least(reinterpret_cast<Least*>(bins + kPasses * kBins)),
        before(reinterpret_cast<Counts*>(least + 1)) {}
  static int64_t words(int64_t chunks) { return kPasses * kBins + 2 + 2 * chunks; }
};

/// Larger where the magnitude is. NaN is infinite.
__device__ unsigned magnitude(float v) {
  const uint32_t bits = to_bits(normal(v)) & 0x7fffffffU;
  return bits > 0x7f800000U ? 0x7f800000U : bits;
}

__global__ void begin_kernel(Scratch s, unsigned kept) {
  const int64_t i = global_index();
  if (i < kPasses * kBins) s.bins[i] = 0;
  if (i == 0) *s.least = {0, kept};
}

/// Numbers by their next bits, of those that begin as the least does. `given` is added first.
__global__ void histogram_kernel(int64_t n, int pass, Scratch s, float* delta, const float* given) {
  __shared__ unsigned own[kBins];
  for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) own[i] = 0;
  __syncthreads();
  const unsigned begins = s.least->bits, mask = pass == 0 ? kBins - 1 : kBins / 2 - 1;
  const int shift = shift_of(pass), known = pass == 0 ? 31 : shift_of(pass - 1);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = global_index(); i < n; i += stride) {
    float v = delta[i];
    if (given != nullptr) delta[i] = v = add(v, given[i]);
    const unsigned bits = magnitude(v);
    if (bits >> known == begins) atomicAdd(&own[bits >> shift & mask], 1U);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) {
    if (own[i] != 0) atomicAdd(&s.bins[pass * kBins + i], own[i]);
  }
}

/// The bin of the least. One block, of which each thread has kBins / kThreads neighbours.
__global__ void choose_kernel(int pass, Scratch s) {
  constexpr unsigned kOwn = kBins / kThreads;
  __shared__ unsigned sums[kThreads];
  const unsigned* const own = s.bins + pass * kBins + threadIdx.x * kOwn;
  const Least least = *s.least;
  unsigned sum = 0, above = 0;
  for (unsigned k = 0; k < kOwn; ++k) sum += own[k];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned t = threadIdx.x + 1; t < kThreads; ++t) above += sums[t];
  if (above >= least.rest || above + sum < least.rest) return;
  unsigned k = kOwn - 1;
  for (; above + own[k] < least.rest; --k) above += own[k];
  *s.least = {least.bits << (pass == 0 ? 11 : 10) | (threadIdx.x * kOwn + k), least.rest - above};
}

__global__ void count_kernel(int64_t n, Scratch s, const float* delta) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChunk;
  const unsigned least = s.least->bits;
  unsigned counts[2] = {0, 0};
  for (int64_t i = first + threadIdx.x; i < n && i < first + kChunk; i += blockDim.x) {
    const unsigned bits = magnitude(delta[i]);
    counts[0] += bits > least ? 1 : 0;
    counts[1] += bits == least ? 1 : 0;
  }
  block_sum(counts);
  if (threadIdx.x == 0) s.before[blockIdx.x] = {counts[0], counts[1]};
}

/// One block, of which each thread has a strip of chunks.
__global__ void add_chunks_kernel(int64_t chunks, Scratch s) {
  __shared__ Counts sums[2][1024];
  const int64_t strip = (chunks + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * strip,
                end = begin + strip < chunks ? begin + strip : chunks;
  Counts sum{0, 0};
  for (int64_t c = begin; c < end; ++c)
    sum = {sum.larger + s.before[c].larger, sum.equal + s.before[c].equal};
  unsigned from = 0;
  sums[0][threadIdx.x] = sum;
  __syncthreads();
  for (unsigned d = 1; d < blockDim.x; d *= 2, from ^= 1) {
    Counts v = sums[from][threadIdx.x];
    if (threadIdx.x >= d) {
      const Counts other = sums[from][threadIdx.x - d];
      v = {v.larger + other.larger, v.equal + other.equal};
    }
    sums[from ^ 1][threadIdx.x] = v;
    __syncthreads();
  }
  Counts at = sums[from][threadIdx.x];  // all up to this strip's end
  at = {at.larger - sum.larger, at.equal - sum.equal};
  for (int64_t c = begin; c < end; ++c) {
    const Counts own = s.before[c];
    s.before[c] = at;
    at = {at.larger + own.larger, at.equal + own.equal};
  }
}

/// Of equal ones the first travel. In the order of their places, row by row of kThreads.
__global__ void gather_kernel(int64_t n, Scratch s, int32_t* places, float* values, float* delta,
                              bool clears) {
  __shared__ Counts found[kThreads / kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, lower = (1U << lane) - 1;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChunk;
  const Least least = *s.least;
  Counts before = s.before[blockIdx.x];
  for (int64_t begin = first; begin < n && begin < first + kChunk; begin += kThreads) {
    const int64_t i = begin + threadIdx.x;
    const float v = i < n ? delta[i] : 0;
    const unsigned bits = magnitude(v);
    const bool larger = i < n && bits > least.bits, equal = i < n && bits == least.bits;
    const unsigned all_larger = __ballot_sync(0xffffffffU, larger),
                   all_equal = __ballot_sync(0xffffffffU, equal);
    __syncthreads();  // the last row's have been read
    if (lane == 0)
      found[warp] = {static_cast<unsigned>(__popc(all_larger)), static_cast<unsigned>(__popc(all_equal))};
    __syncthreads();
    Counts mine = before;
    for (unsigned w = 0; w < kThreads / kWarp; ++w) {
      if (w < warp) mine = {mine.larger + found[w].larger, mine.equal + found[w].equal};
      before = {before.larger + found[w].larger, before.equal + found[w].equal};
    }
    mine.larger += static_cast<unsigned>(__popc(all_larger & lower));
    mine.equal += static_cast<unsigned>(__popc(all_equal & lower));
    if (!larger && !(equal && mine.equal < least.rest)) continue;
    const unsigned at = mine.larger + (mine.equal < least.rest ? mine.equal : least.rest);
    places[at] = static_cast<int32_t>(i);
    values[at] = v;
    if (clears) delta[i] = 0;
  }
}

Prepared compress_topk(const CompressionShape& s) {
  const int64_t n = s.elements, kept = s.kept, chunks = (n + kChunk - 1) / kChunk;
  const bool feedback = s.feedback;
  return {[=](const Launch& l) {
            float *const message = l.operands[0], *const delta = l.operands[1];
            const Scratch scratch(l);
            launch(begin_kernel, blocks_for(kPasses * kBins), kThreads, l.stream, scratch,
                   static_cast<unsigned>(kept));
            for (int pass = 0; pass < kPasses; ++pass) {
              launch(histogram_kernel, std::min(1024U, blocks_for(n, kChunk)), kThreads, l.stream, n, pass,
                     scratch, delta, feedback && pass == 0 ? l.operands[2] : nullptr);
              launch(choose_kernel, 1, kThreads, l.stream, pass, scratch);
            }
            launch(count_kernel, blocks_for(n, kChunk), kThreads, l.stream, n, scratch, delta);
            launch(add_chunks_kernel, 1, 1024, l.stream, chunks, scratch);
            launch(gather_kernel, blocks_for(n, kChunk), kThreads, l.stream, n, scratch,
                   operand<int32_t>(l, 0), message + kept, delta, feedback);
          },
          Scratch::words(chunks)};
}

/// A worker's places are all different.
__global__ void scatter_kernel(int64_t kept, float* sum, const int32_t* places, const float* values) {
  const int64_t k = global_index();
  if (k >= kept) return;
  float& to = sum[places[k]];
  to = add(to, values[k]);
}

Prepared decompress_topk(const CompressionShape& s) {
  const int64_t n = s.elements, kept = s.kept, workers = s.workers, message = s.message;
  return {[=](const Launch& l) {
    map(n, Nothing{}, l.operands[0], static_cast<const float*>(l.operands[0]), l.stream);
    for (int64_t w = 0; w < workers; ++w) {
      const float* const from = l.operands[1] + w * message;
      launch(scatter_kernel, blocks_for(kept), kThreads, l.stream, kept, l.operands[0],
             reinterpret_cast<const int32_t*>(from), from + kept);
    }
  }};
}

using Kind = Compression::Kind;

Prepared compress(const Call& c) {
  const CompressionShape s(c);
  if (s.kind == Kind::int8) return compress_int8(s);
  if (s.kind == Kind::topk) return compress_topk(s);
  TANDEM_CHECK(s.kind == Kind::powersgd);
  return compress_powersgd(s);
}

Prepared orthogonalise(const Call& c) { return orthogonalise_powersgd(CompressionShape(c)); }

Prepared decompress(const Call& c) {
  const CompressionShape s(c);
  if (s.kind == Kind::int8) return decompress_int8(s);
  if (s.kind == Kind::topk) return decompress_topk(s);
  TANDEM_CHECK(s.kind == Kind::powersgd);
  return decompress_powersgd(s);
}

}  // namespace

void add_compression(Table& t) {
  set(t, Function::compress, compress);
  set(t, Function::orthogonalise, orthogonalise);
  set(t, Function::decompress, decompress);
}

}  // namespace tandem::exec::cuda

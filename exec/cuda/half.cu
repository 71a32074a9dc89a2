// Numbers of 2 bytes: inputs of products and convolutions rounded to them, and functions on what is stored
// so.
#include "exec/cuda/half.h"

#include "exec/cuda/storage.h"

namespace tandem::cuda {

namespace {

constexpr int kTop = 14;  ///< exponent that the largest magnitude of an fp16 input is brought to
constexpr int64_t kBacks = 64, kPeaks = kThreads;  ///< floats in front of the copies in scratch

/// Of each block's share. What is NaN is passed over: it stays NaN on its own.
__global__ void peak_kernel(int64_t n, float* peaks, const float* x) {
  float most = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = global_index(); i < n; i += stride) most = fmaxf(most, fabsf(x[i]));
  most = block_max(most);
  if (threadIdx.x == 0) peaks[blockIdx.x] = most;
}

/// The power of two that brings a magnitude to [2^kTop, 2 * 2^kTop), as far as it and its inverse are normal.
__device__ float scale_for(float magnitude) {
  const uint32_t bits = to_bits(magnitude);
  if (bits == 0 || bits >= 0x7f800000U) return 1;
  const int exponent = static_cast<int>(bits >> 23) - 127;
  return from_bits(static_cast<uint32_t>(127 + kTop - (exponent < -100 ? -100 : exponent)) << 23);
}

/// One thread to a peak. `back`: what undoes the scale.
template <typename T>
__global__ void narrow_kernel(int64_t n, T* to, const float* x, unsigned count, const float* peaks,
                              float* back) {
  float scale = 1;
  if (count > 0) {
    scale = scale_for(block_max(threadIdx.x < count ? peaks[threadIdx.x] : 0.0F));
    if (global_index() == 0) *back = 1 / scale;
  }
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (int64_t i = global_index(); i < n; i += stride) store(to + i, scale * x[i]);
}

void narrow_fp16(float* to, const float* x, int64_t n, float* peaks, float* back, Stream stream) {
  const unsigned blocks = std::min(4096U, blocks_for(n));
  const unsigned count = std::min(static_cast<unsigned>(kPeaks), blocks);
  launch(peak_kernel, count, kThreads, stream, n, peaks, x);
  launch(narrow_kernel<Fp16>, blocks, kThreads, stream, n, reinterpret_cast<Fp16*>(to), x, count, peaks,
         back);
}

/// y = raw, scaled back [+ y] [+ bias of its channel]; raw may be y.
__global__ void finish_kernel(int64_t n, float* y, const float* raw, const float* backs, bool adds,
                              const float* bias, int64_t channels, int64_t inner) {
  const int64_t i = global_index();
  if (i >= n) return;
  float v = raw[i] * backs[0] * backs[1];
  if (adds) v += y[i];
  if (bias != nullptr) v += bias[i / inner % channels];
  y[i] = v;
}

__global__ void widen_kernel(int64_t n, float* to, const Bf16* from) {
  const int64_t i = global_index();
  if (i < n) to[i] = load(from + i);
}

/// Elements of the call's output and inputs; its channels, and the elements from one to the next.
struct Sizes {
  int64_t y, a, b, channels, inner = 1;

  explicit Sizes(const Call& c) {
    if (c.function == Function::gemm) {
      y = c.shape[0] * c.shape[1];
      a = c.shape[0] * c.shape[2];
      b = c.shape[2] * c.shape[1];
      channels = c.shape[1];
      return;
    }
    const ConvShape s = ConvShape::unpack({c.shape.begin(), c.shape.end() - 1});
    const int64_t in = s.in_elements(), out = s.out_elements(), weights = s.weight_elements();
    y = c.function == Function::conv ? out : c.function == Function::conv_backward_data ? in : weights;
    a = c.function == Function::conv_backward_data ? out : in;
    b = c.function == Function::conv_backward_weights ? out : weights;
    channels = s.out_channels;
    if (c.shape.back() == 0) inner = s.out[0] * s.out[1] * s.out[2];
  }
};

/// Floats that so many numbers take, of so many bytes, up to the next multiple of 256 bytes.
int64_t floats_of(int64_t numbers, int64_t bytes) { return (numbers * bytes + 255) / 256 * 64; }

Prepared multiply_bf16(const Call& call, const Sizes& s, const PrepareHalf& prepare) {
  const bool bias = call.operands.size() > 3, short_bias = bias && call.half(0);
  const bool copy_a = !call.half(1), copy_b = !call.half(2);
  const int64_t at_b = copy_a ? floats_of(s.a, 2) : 0, at_bias = at_b + (copy_b ? floats_of(s.b, 2) : 0),
                rest = at_bias + (short_bias ? floats_of(s.channels, 2) : 0);
  const Prepared made = prepare(call);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            float* operands[] = {o[0], o[1], o[2], bias ? o[3] : nullptr};
            const auto shorten = [&](std::size_t k, int64_t place, int64_t n) {
              operands[k] = l.scratch + place;
              narrow_bf16(operands[k], o[k], n, l.stream);
            };
            if (copy_a) shorten(1, 0, s.a);
            if (copy_b) shorten(2, at_b, s.b);
            if (short_bias) shorten(3, at_bias, s.channels);
            made.run({operands, l.state, l.scratch + rest, l.stream});
          },
          rest + made.scratch};
}

Prepared multiply_fp16(const Call& call, const Sizes& s, const PrepareHalf& prepare) {
  const bool bias = call.operands.size() > 3;
  const bool adds = call.function == Function::gemm && call.shape[5] != 0;
  Call inner = call;
  if (bias) inner.operands.resize(3);
  if (adds) inner.shape[5] = 0;
  const Prepared made = prepare(inner);
  const int64_t at_a = kBacks + kPeaks, at_b = at_a + floats_of(s.a, 2), at_y = at_b + floats_of(s.b, 2),
                rest = at_y + (adds ? floats_of(s.y, 4) : 0);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            float *backs = l.scratch, *peaks = backs + kBacks, *y = adds ? backs + at_y : o[0];
            narrow_fp16(backs + at_a, o[1], s.a, peaks, backs, l.stream);
            narrow_fp16(backs + at_b, o[2], s.b, peaks, backs + 1, l.stream);
            float* const operands[] = {y, backs + at_a, backs + at_b};
            made.run({operands, l.state, backs + rest, l.stream});
            launch(finish_kernel, blocks_for(s.y), kThreads, l.stream, s.y, o[0], y, backs, adds,
                   bias ? o[3] : nullptr, s.channels, s.inner);
          },
          rest + made.scratch};
}

constexpr std::size_t kMostOperands = 9;  ///< of attention_backward

}  // namespace

Prepared multiply_half(const Call& call, Precision precision, const PrepareHalf& prepare) {
  const Sizes s(call);
  return precision == Precision::bf16 ? multiply_bf16(call, s, prepare) : multiply_fp16(call, s, prepare);
}

void widen_bf16(float* to, const void* from, int64_t elements, Stream stream) {
  launch(widen_kernel, blocks_for(elements), kThreads, stream, elements, to, static_cast<const Bf16*>(from));
}
void narrow_bf16(void* to, const float* from, int64_t elements, Stream stream) {
  launch(narrow_kernel<Bf16>, std::min(4096U, blocks_for(elements)), kThreads, stream, elements,
         static_cast<Bf16*>(to), from, 0U, nullptr, nullptr);
}

uint32_t halves_of(const Call& call) {
  uint32_t out = 0;
  for (std::size_t k = 0; k < call.halves.size(); ++k) out |= call.half(k) ? 1U << k : 0;
  return out;
}

Prepared prepare_own(const Call& call) {
  const Maker& make = own_kernels()[static_cast<std::size_t>(call.function)];
  const uint32_t halves = halves_of(call);
  if (halves == 0) return make.plain(call);
  if (make.half != nullptr && make.halves(call) == halves) return make.half(call);
  return widened(call, make.plain);
}

Prepared widened(const Call& call, const std::function<Prepared(const Call& call)>& prepare) {
  const std::size_t count = call.operands.size();
  TANDEM_CHECK(count <= kMostOperands);
  Call plain = call;
  plain.halves.clear();
  const Prepared made = prepare(plain);
  struct Copy {
    int64_t place = -1, elements = 0;  ///< in scratch; -1: none
    bool first = true, written = false;
  };
  std::array<Copy, kMostOperands> copies;
  const std::size_t outputs = call.function == Function::attention_backward ? 3 : 1;  // of those in bf16
  int64_t rest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    if (!call.half(k)) continue;
    Copy& c = copies[k];
    c.elements = call.halves[k];
    c.written = k < outputs;
    // A tensor may stand for several operands, of which each writes its part.
    for (std::size_t other = 0; other < k && c.first; ++other) {
      if (call.operands[other] != call.operands[k]) continue;
      c.place = copies[other].place;
      c.first = c.written = false;
    }
    if (!c.first) continue;
    c.place = rest;
    rest += floats_of(c.elements, 4);
  }
  return {[=](const Launch& l) {
            float* operands[kMostOperands] = {};
            for (std::size_t k = 0; k < count; ++k) {
              const Copy& c = copies[k];
              operands[k] = c.place < 0 ? l.operands[k] : l.scratch + c.place;
              if (c.place >= 0 && c.first) widen_bf16(operands[k], l.operands[k], c.elements, l.stream);
            }
            made.run({operands, l.state, l.scratch + rest, l.stream});
            for (std::size_t k = 0; k < count; ++k) {
              if (copies[k].written) narrow_bf16(l.operands[k], operands[k], copies[k].elements, l.stream);
            }
          },
          rest + made.scratch};
}

}  // namespace tandem::cuda

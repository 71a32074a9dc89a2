// SPDX-License-Identifier: Apache-2.0
// Numbers of 2 bytes: inputs of products and convolutions rounded to them, and functions on what is stored
// so.
#include "exec/device/cuda/half.h"

#include "exec/device/cuda/pieces.h"
#include "exec/device/cuda/storage.h"

namespace tandem::exec::cuda {

namespace {

/// Four elements from there on, as 16 bytes of floats and 8 of halves; `Wide`: both lie at multiples of
/// these. Otherwise one.
template <bool Wide, typename T>
__device__ void narrow_four(int64_t i, int64_t n, T* to, const float* from, float factor) {
  if constexpr (Wide) {
    if (i + 4 <= n) {
      float v[4];
      load_neighbours(from + i, v);
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] *= factor;
      store_neighbours(to + i, v);
      return;
    }
  }
  for (int64_t k = i; k < n && k < i + (Wide ? 4 : 1); ++k) store(to + k, factor * from[k]);
}
template <bool Wide, typename T>
__global__ void narrow_kernel(int64_t n, T* to, const float* from, const State* scaled) {
  narrow_four<Wide>(global_index() * (Wide ? 4 : 1), n, to, from, scaled == nullptr ? 1 : scaled->loss_scale);
}
template <bool Wide, typename T>
__global__ void upcast_kernel(int64_t n, float* to, const T* from, const State* scaled) {
  const float factor = scaled == nullptr ? 1 : 1 / scaled->loss_scale;  // of a power of two
  const int64_t i = global_index() * (Wide ? 4 : 1);
  if constexpr (Wide) {
    if (i + 4 <= n) {
      float v[4];
      load_neighbours(from + i, v);
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] *= factor;
      store_neighbours(to + i, v);
      return;
    }
  }
  for (int64_t k = i; k < n && k < i + (Wide ? 4 : 1); ++k) to[k] = factor * load(from + k);
}

template <typename T>
bool wide_pair(const void* floats, const void* halves) {
  return wide_aligned(floats) && reinterpret_cast<uintptr_t>(halves) % sizeof(Neighbours<T, 4>) == 0;
}
template <typename T>
void narrow_to(T* to, const float* from, int64_t n, const State* scaled, Stream stream) {
  if (n == 0) return;
  if (wide_pair<T>(from, to))
    launch(narrow_kernel<true, T>, blocks_for(n, 4L * kThreads), kThreads, stream, n, to, from, scaled);
  else
    launch(narrow_kernel<false, T>, blocks_for(n), kThreads, stream, n, to, from, scaled);
}
template <typename T>
void upcast_from(float* to, const T* from, int64_t n, const State* scaled, Stream stream) {
  if (n == 0) return;
  if (wide_pair<T>(to, from))
    launch(upcast_kernel<true, T>, blocks_for(n, 4L * kThreads), kThreads, stream, n, to, from, scaled);
  else
    launch(upcast_kernel<false, T>, blocks_for(n), kThreads, stream, n, to, from, scaled);
}

/// Vectors that all lie as narrow_kernel's wide ones, in one launch.
struct Vectors {
  static constexpr int kMost = 3;
  int count = 0;
  unsigned blocks[kMost] = {};
  int64_t n[kMost] = {};
  void* to[kMost] = {};
  const float* from[kMost] = {};
};
template <typename T>
__global__ void narrow_vectors_kernel(Vectors vectors) {
  unsigned block = blockIdx.x;
#pragma unroll
  for (int v = 0; v < Vectors::kMost; ++v) {
    if (block < vectors.blocks[v]) {
      narrow_four<true>((int64_t{block} * kThreads + threadIdx.x) * 4, vectors.n[v],
                        static_cast<T*>(vectors.to[v]), vectors.from[v], 1);
      return;
    }
    block -= vectors.blocks[v];
  }
}
template <typename T>
void narrow_vectors(Vectors& vectors, Stream stream) {
  unsigned all = 0;
  bool wide = true;
  for (int v = 0; v < vectors.count; ++v) {
    all += vectors.blocks[v] = vectors.n[v] == 0 ? 0 : blocks_for(vectors.n[v], 4L * kThreads);
    wide = wide && wide_pair<T>(vectors.from[v], vectors.to[v]);
  }
  if (wide && all > 0) return launch(narrow_vectors_kernel<T>, all, kThreads, stream, vectors);
  for (int v = 0; v < vectors.count; ++v)
    narrow_to(static_cast<T*>(vectors.to[v]), vectors.from[v], vectors.n[v], nullptr, stream);
}

/// One thread four elements.
template <typename T>
__global__ void renew_kernel(Pieces pieces, int64_t n, const float* from) {
  const int64_t i = global_index() * 4;
  if (i + 4 <= n) {
    const float v[4] = {from[i], from[i + 1], from[i + 2], from[i + 3]};
    pieces.store<T>(pieces.find(i), i, v);
    return;
  }
  for (int64_t k = i; k < n; ++k) {
    const float v[1] = {from[k]};
    pieces.store<T>(pieces.find(k), k, v);
  }
}

/// A row a block, in parts of kTaken elements a thread.
constexpr int kTaken = 8;
template <typename T>
__global__ void copy_rows_kernel(Matrix to, Matrix from) {
  const int64_t row = blockIdx.x, begin = static_cast<int64_t>(blockIdx.y) * kThreads * kTaken + threadIdx.x;
  T* const target = static_cast<T*>(to.at) + row * to.stride;
  const T* const source = static_cast<const T*>(from.at) + row * from.stride;
  T v[kTaken];
#pragma unroll
  for (int k = 0; k < kTaken; ++k) {
    const int64_t column = begin + k * kThreads;
    v[k] = row < from.rows && column < from.columns ? source[column] : T{0};
  }
#pragma unroll
  for (int k = 0; k < kTaken; ++k) {
    if (begin + k * kThreads < to.columns) target[begin + k * kThreads] = v[k];
  }
}

/// Elements of the call's inputs and of its bias.
struct Sizes {
  int64_t a, b, channels;

  explicit Sizes(const Call& c) {
    if (c.function == Function::gemm) {
      a = c.shape[0] * c.shape[2];
      b = c.shape[2] * c.shape[1];
      channels = c.shape[1];
      return;
    }
    const ConvShape s = ConvShape::unpack({c.shape.begin(), c.shape.end() - 1});
    const int64_t in = s.in_elements(), out = s.out_elements(), weights = s.weight_elements();
    a = c.function == Function::conv_backward_data ? out : in;
    b = c.function == Function::conv_backward_weights ? out : weights;
    channels = s.out_channels;
  }
};

/// Floats taken by `numbers` numbers of `bytes` bytes, up to the next multiple of 256 bytes.
int64_t floats_of(int64_t numbers, int64_t bytes) { return (numbers * bytes + 255) / 256 * 64; }

constexpr std::size_t kMostOperands = 10;  ///< of attention_backward

}  // namespace

Prepared multiply_half(const Call& call, Precision half, const PrepareHalf& prepare) {
  const Sizes s(call);
  const bool bias = call.operands.size() > 3;
  const auto copies = [&](std::size_t k) { return !call.half(k) && !call.has_copy(k); };
  const bool copy_a = copies(1), copy_b = copies(2), short_bias = bias && call.half(0) && copies(3);
  std::array<std::size_t, 4> at{0, 1, 2, 3};
  for (std::size_t k = 1; k < 4; ++k) at[k] = call.has_copy(k) ? call.copy_of(k) : k;
  const int64_t at_b = copy_a ? floats_of(s.a, 2) : 0, at_bias = at_b + (copy_b ? floats_of(s.b, 2) : 0),
                rest = at_bias + (short_bias ? floats_of(s.channels, 2) : 0);
  const Prepared made = prepare(call);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            float* operands[] = {o[0], o[at[1]], o[at[2]], bias ? o[at[3]] : nullptr};
            Vectors vectors;
            const auto shorten = [&](std::size_t k, int64_t place, int64_t n) {
              operands[k] = l.scratch + place;
              vectors.to[vectors.count] = operands[k];
              vectors.from[vectors.count] = o[k];
              vectors.n[vectors.count++] = n;
            };
            if (copy_a) shorten(1, 0, s.a);
            if (copy_b) shorten(2, at_b, s.b);
            if (short_bias) shorten(3, at_bias, s.channels);
            half == Precision::bf16 ? narrow_vectors<Bf16>(vectors, l.stream)
                                    : narrow_vectors<Fp16>(vectors, l.stream);
            made.run({operands, l.state, l.scratch + rest, l.stream});
          },
          rest + made.scratch};
}

void renew(const CopiedRange& range, const float* vector, Precision half, Stream stream) {
  TANDEM_CHECK(is_half(half));
  if (range.piece_count > 0 && range.elements > 0)
    launch(half == Precision::bf16 ? renew_kernel<Bf16> : renew_kernel<Fp16>,
           blocks_for(range.elements, 4L * kThreads), kThreads, stream, Pieces(range), range.elements,
           vector + range.first);
  renew_matrices(range, vector, stream);
}

void copy_rows(const Matrix& to, const Matrix& from, std::size_t bytes, Stream stream) {
  const dim3 grid(static_cast<unsigned>(to.rows), blocks_for(to.columns, int64_t{kThreads} * kTaken));
  launch(bytes == 2 ? copy_rows_kernel<uint16_t> : copy_rows_kernel<uint32_t>, grid, kThreads, stream, to,
         from);
}

void upcast(float* to, const void* from, Precision half, int64_t elements, Stream stream,
            const State* scaled) {
  TANDEM_CHECK(is_half(half));
  if (half == Precision::bf16)
    upcast_from(to, static_cast<const Bf16*>(from), elements, scaled, stream);
  else
    upcast_from(to, static_cast<const Fp16*>(from), elements, scaled, stream);
}
void narrow(void* to, const float* from, Precision half, int64_t elements, Stream stream,
            const State* scaled) {
  TANDEM_CHECK(is_half(half));
  if (half == Precision::bf16)
    narrow_to(static_cast<Bf16*>(to), from, elements, scaled, stream);
  else
    narrow_to(static_cast<Fp16*>(to), from, elements, scaled, stream);
}

uint32_t half_mask(const Call& call) {
  uint32_t out = 0;
  for (std::size_t k = 0; k < call.half_operands.size(); ++k) out |= call.half(k) ? 1U << k : 0;
  return out;
}

Prepared prepare_move(const Strided& move, Precision stored) {
  Call call;
  call.function = Function::move;
  call.operands = {0, 1};
  call.shape = move.pack();
  if (is_half(stored)) call.half_operands = {1, 1};
  Prepared made = prepare_own(call, stored);
  TANDEM_CHECK(made.scratch == 0);
  return made;
}

Prepared prepare_own(const Call& call, Precision half) {
  const Maker& make = own_kernels()[static_cast<std::size_t>(call.function)];
  const uint32_t mask = half_mask(call);
  if (mask == 0) return make.plain(call);
  if (make.half_operands != nullptr && make.half_operands(call) == mask)
    return half == Precision::bf16 ? make.bf16(call) : make.fp16(call);
  return upcast(call, half, make.plain);
}

Prepared upcast(const Call& call, Precision half, const std::function<Prepared(const Call& call)>& prepare) {
  const std::size_t count = call.operands.size();
  TANDEM_CHECK(count <= kMostOperands);
  Call plain = call;
  plain.half_operands.clear();
  plain.copied = 0;
  const Prepared made = prepare(plain);
  struct Copy {
    int64_t place = -1, elements = 0;  ///< in scratch; -1: none
    bool first = true, written = false;
  };
  std::array<Copy, kMostOperands> copies;
  // Operands up to the last that is written.
  const bool third = call.function == Function::attention_backward ||
                     (call.function == Function::batch_norm_relu_sums && call.shape[5] != 0);
  const std::size_t outputs = third ? 3 : 1;
  int64_t rest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    if (!call.half(k)) continue;
    Copy& c = copies[k];
    c.elements = call.half_operands[k];
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
              if (c.place >= 0 && c.first) upcast(operands[k], l.operands[k], half, c.elements, l.stream);
            }
            made.run({operands, l.state, l.scratch + rest, l.stream});
            for (std::size_t k = 0; k < count; ++k) {
              if (copies[k].written) narrow(l.operands[k], operands[k], half, copies[k].elements, l.stream);
            }
          },
          rest + made.scratch};
}

}  // namespace tandem::exec::cuda

// SPDX-License-Identifier: Apache-2.0
#include "exec/device/compression.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "exec/device/compression_shape.h"
#include "exec/device/cpu/kernel.h"

namespace tandem::exec {

namespace {

using Buffers = std::span<float* const>;
using Compress = std::function<void(Buffers)>;

/// What travels is `delta`: these gradients, and what was left out of those before.
void take_gradients(const CompressionShape& s, Buffers o) {
  if (s.feedback) cpu::accumulate(o[1], o[2], s.elements);
}

struct Scaled {  // of elements with one scale
  int64_t first, count;
};
Scaled scaled(const CompressionShape& s, int64_t number) {
  const int64_t first = number * kScaledTogether;
  return {first, std::min(kScaledTogether, s.elements - first)};
}

/// Scales first, then a byte an element. What is not finite stays so, in the scale.
void compress_int8(const CompressionShape& s, Buffers o) {
  take_gradients(s, o);
  float *scales = o[0], *delta = s.feedback ? o[1] : o[2];
  auto* numbers = reinterpret_cast<int8_t*>(scales + s.scales());
  for (int64_t b = 0; b < s.scales(); ++b) {
    const Scaled at = scaled(s, b);
    float largest = 0;
    bool finite = true;
    for (int64_t i = at.first; i < at.first + at.count; ++i) {
      largest = std::max(largest, std::abs(delta[i]));
      finite = finite && std::isfinite(delta[i]);
    }
    const float scale = scales[b] = finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = at.first; i < at.first + at.count; ++i) {
      numbers[i] = finite && scale > 0 ? static_cast<int8_t>(std::lrint(delta[i] / scale)) : int8_t{0};
      if (s.feedback) delta[i] -= scale * static_cast<float>(numbers[i]);
    }
  }
}

void decompress_int8(const CompressionShape& s, Buffers o) {
  float* sum = o[0];
  std::fill_n(sum, s.elements, 0.0F);
  for (int64_t w = 0; w < s.workers; ++w) {
    const float* scales = o[1] + w * s.message;
    const auto* numbers = reinterpret_cast<const int8_t*>(scales + s.scales());
    for (int64_t b = 0; b < s.scales(); ++b) {
      const Scaled at = scaled(s, b);
      for (int64_t i = at.first; i < at.first + at.count; ++i)
        sum[i] += scales[b] * static_cast<float>(numbers[i]);
    }
  }
}

/// Places first, in order, then what lies there. Of equal ones the first is the larger.
void compress_topk(const CompressionShape& s, std::vector<int32_t>& places, Buffers o) {
  take_gradients(s, o);
  float* delta = s.feedback ? o[1] : o[2];
  const auto size = [delta](int32_t i) {
    return std::isnan(delta[i]) ? std::numeric_limits<float>::infinity() : std::abs(delta[i]);
  };
  std::iota(places.begin(), places.end(), 0);
  const auto end = places.begin() + s.kept;
  std::nth_element(places.begin(), end - 1, places.end(),
                   [&](int32_t a, int32_t b) { return size(a) != size(b) ? size(a) > size(b) : a < b; });
  std::sort(places.begin(), end);
  std::memcpy(o[0], places.data(), static_cast<std::size_t>(s.kept) * sizeof(int32_t));
  for (int64_t k = 0; k < s.kept; ++k) {
    float& value = delta[places[static_cast<std::size_t>(k)]];
    o[0][s.kept + k] = value;
    if (s.feedback) value = 0;
  }
}

void decompress_topk(const CompressionShape& s, Buffers o) {
  float* sum = o[0];
  std::fill_n(sum, s.elements, 0.0F);
  for (int64_t w = 0; w < s.workers; ++w) {
    const float* message = o[1] + w * s.message;
    for (int64_t k = 0; k < s.kept; ++k) {
      int32_t place = 0;
      std::memcpy(&place, message + k, sizeof(place));
      sum[place] += message[s.kept + k];
    }
  }
}

/// P = M Q, with the Q of the iteration before.
void compress_powersgd(const CompressionShape& s, Buffers o) {
  take_gradients(s, o);
  const float* delta = s.feedback ? o[1] : o[2];
  s.each_factor([&](const Factors& f, int64_t left, int64_t right) {
    const float *m = delta + f.first, *q = o[0] + right;
    float* p = o[0] + left;
    if (f.rank == 0)
      std::copy_n(m, f.left(), p);
    else
      cpu::sgemm(false, false, f.rows, f.rank, f.columns, m, f.columns, q, f.rank, 0, p, f.rank);
  });
}

/// Modified Gram-Schmidt on the columns. What is nearly nothing becomes nothing (epsilon 1e-8, as in the
/// authors' own).
void make_orthonormal(const Factors& f, float* p) {
  for (int32_t c = 0; c < f.rank; ++c) {
    double norm = 0;
    for (int64_t r = 0; r < f.rows; ++r) norm += double{p[r * f.rank + c]} * double{p[r * f.rank + c]};
    const auto factor = static_cast<float>(1 / (std::sqrt(norm) + 1e-8));
    for (int64_t r = 0; r < f.rows; ++r) p[r * f.rank + c] *= factor;
    for (int32_t other = c + 1; other < f.rank; ++other) {
      double product = 0;
      for (int64_t r = 0; r < f.rows; ++r)
        product += double{p[r * f.rank + c]} * double{p[r * f.rank + other]};
      for (int64_t r = 0; r < f.rows; ++r)
        p[r * f.rank + other] -= static_cast<float>(product) * p[r * f.rank + c];
    }
  }
}

/// Q = M^T P.
void orthogonalise(const CompressionShape& s, Buffers o) {
  const float* delta = o[1];
  s.each_factor([&](const Factors& f, int64_t left, int64_t right) {
    if (f.rank == 0) return;
    float *p = o[0] + left, *q = o[0] + right;
    make_orthonormal(f, p);
    cpu::sgemm(true, false, f.columns, f.rank, f.rows, delta + f.first, f.columns, p, f.rank, 0, q, f.rank);
  });
}

/// P Q^T is the sum over workers; each is left with what its own has beyond the mean.
void decompress_powersgd(const CompressionShape& s, Buffers o) {
  s.each_factor([&](const Factors& f, int64_t left, int64_t right) {
    const float *p = o[1] + left, *q = o[1] + right;
    float* sum = o[0] + f.first;
    if (f.rank == 0)
      std::copy_n(p, f.left(), sum);
    else
      cpu::sgemm(false, true, f.rows, f.columns, f.rank, p, f.rank, q, f.rank, 0, sum, f.columns);
    if (!s.feedback) return;
    float* delta = o[2] + f.first;
    const float share = 1 / static_cast<float>(s.workers);
    for (int64_t i = 0; i < f.rows * f.columns; ++i) delta[i] = f.rank == 0 ? 0 : delta[i] - share * sum[i];
  });
}

}  // namespace

Compress host_compression(const Call& call) {
  const CompressionShape s(call);
  using Kind = Compression::Kind;
  const bool back = call.function == Function::decompress;
  if (call.function == Function::orthogonalise) return [s](Buffers o) { orthogonalise(s, o); };
  switch (s.kind) {
    case Kind::int8:
      return back ? Compress([s](Buffers o) { decompress_int8(s, o); })
                  : Compress([s](Buffers o) { compress_int8(s, o); });
    case Kind::topk: {
      if (back) return [s](Buffers o) { decompress_topk(s, o); };
      const auto places = std::make_shared<std::vector<int32_t>>(static_cast<std::size_t>(s.elements));
      return [s, places](Buffers o) { compress_topk(s, *places, o); };
    }
    default:
      TANDEM_CHECK(s.kind == Kind::powersgd);
      return back ? Compress([s](Buffers o) { decompress_powersgd(s, o); })
                  : Compress([s](Buffers o) { compress_powersgd(s, o); });
  }
}

Call compression_call(Function function, const CompressedBucket& bucket) {
  Call call;
  call.function = function;
  call.pass = function == Function::decompress ? Pass::update : Pass::backward_weights;
  call.shape = {static_cast<int64_t>(bucket.rule.kind),
                bucket.rule.feedback ? 1 : 0,
                bucket.elements,
                bucket.workers,
                bucket.kept,
                bucket.message()};
  for (const Factors& f : bucket.factors)
    call.shape.insert(call.shape.end(), {f.first, f.rows, f.columns, f.rank});
  return call;
}

}  // namespace tandem::exec

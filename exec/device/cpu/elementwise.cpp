// SPDX-License-Identifier: Apache-2.0
// Activations, dropout, and strided copies, sums and products.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"
#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/math.h"

namespace tandem::exec::cpu {

namespace {

constexpr float kRootHalf = 0.70710678F, kGaussian = 0.39894228F;  // 1/sqrt(2), 1/sqrt(2 pi)

template <typename F>
Prepared map(int64_t n, F f) {
  return [=](std::span<float* const> o, const IterationState&) {
    float* y = o[0];
    const float* x = o[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  };
}

template <typename F>
Prepared map_gradient(int64_t n, F f) {
  return [=](std::span<float* const> o, const IterationState&) {
    float* dx = o[0];
    const float *dy = o[1], *z = o[2];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * f(z[i]);
  };
}

Prepared unary(const Call& c, int) {
  const int64_t n = c.shape[0];
  const float low = c.scalars.empty() ? 0 : c.scalars[0], high = c.scalars.size() > 1 ? c.scalars[1] : 0;
  switch (static_cast<Unary>(c.shape[1])) {
    case Unary::relu:
      return map(n, [](float x) { return x > 0 ? x : 0; });
    case Unary::relu6:
      return map(n, [](float x) { return std::min(std::max(x, 0.0F), 6.0F); });
    case Unary::leaky_relu:
      return map(n, [=](float x) { return x > 0 ? x : low * x; });
    case Unary::clip:
      return map(n, [=](float x) { return std::min(std::max(x, low), high); });
    case Unary::sigmoid:
      return map(n, fast_sigmoid);
    case Unary::tanh:
      return map(n, [](float x) { return fast_tanh(x); });
    case Unary::gelu:
      return map(n, [](float x) { return 0.5F * x * (1 + fast_erf(x * kRootHalf)); });
    case Unary::swish:
      return map(n, [](float x) { return x * fast_sigmoid(x); });
    case Unary::hard_sigmoid:
      return map(n, [](float x) { return std::min(std::max(x + 3, 0.0F), 6.0F) * (1 / 6.0F); });
    case Unary::hard_swish:
      return map(n, [](float x) { return x * std::min(std::max(x + 3, 0.0F), 6.0F) * (1 / 6.0F); });
    case Unary::relu2:
      return map(n, [](float x) { return x > 0 ? x * x : 0; });
    default:  // softplus; for large x the exponential would overflow
      return map(n, [](float x) { return std::max(x, 0.0F) + std::log(1 + fast_exp(-std::abs(x))); });
  }
}

/// z is the output up to tanh, the input from gelu on.
Prepared unary_backward(const Call& c, int) {
  const int64_t n = c.shape[0];
  const float low = c.scalars.empty() ? 0 : c.scalars[0], high = c.scalars.size() > 1 ? c.scalars[1] : 0;
  switch (static_cast<Unary>(c.shape[1])) {
    case Unary::relu:
      return map_gradient(n, [](float y) { return y > 0 ? 1.0F : 0.0F; });
    case Unary::relu6:
      return map_gradient(n, [](float y) { return y > 0 && y < 6 ? 1.0F : 0.0F; });
    case Unary::leaky_relu:
      return map_gradient(n, [=](float y) { return y > 0 ? 1 : low; });
    case Unary::clip:
      return map_gradient(n, [=](float y) { return y > low && y < high ? 1.0F : 0.0F; });
    case Unary::sigmoid:
      return map_gradient(n, [](float y) { return y * (1 - y); });
    case Unary::tanh:
      return map_gradient(n, [](float y) { return 1 - y * y; });
    case Unary::gelu:
      return map_gradient(n, [](float x) {
        return 0.5F * (1 + fast_erf(x * kRootHalf)) + x * kGaussian * fast_exp(-0.5F * x * x);
      });
    case Unary::swish:
      return map_gradient(n, [](float x) {
        const float s = fast_sigmoid(x);
        return s * (1 + x * (1 - s));
      });
    case Unary::hard_sigmoid:
      return map_gradient(n, [](float x) { return x > -3 && x < 3 ? 1 / 6.0F : 0.0F; });
    case Unary::hard_swish:
      return map_gradient(n, [](float x) { return x <= -3 ? 0.0F : x < 3 ? x / 3 + 0.5F : 1.0F; });
    case Unary::relu2:
      return map_gradient(n, [](float x) { return x > 0 ? 2 * x : 0; });
    default:
      return map_gradient(n, fast_sigmoid);
  }
}

/// 32-bit finaliser of MurmurHash3 (Appleby, public domain): every input bit reaches every output bit.
uint32_t scramble(uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bU;
  h ^= h >> 13;
  h *= 0xc2b2ae35U;
  return h ^ h >> 16;
}

Prepared dropout(const Call& c, int) {
  const int64_t n = c.shape[0];
  const auto salt = static_cast<uint64_t>(c.shape[1]);
  const float p = c.scalars.at(0), scale = 1 / (1 - p);
  const auto limit = static_cast<uint32_t>(static_cast<double>(p) * 4294967296.0);
  return [=](std::span<float* const> o, const IterationState& s) {
    const auto key =
        static_cast<uint32_t>(mix64(s.seed ^ mix64(salt << 40 ^ uint64_t{s.instance} << 32 ^ s.iteration)));
    float* y = o[0];
    const float* x = o[1];
    auto* mask = reinterpret_cast<uint8_t*>(o[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const bool keep = scramble(static_cast<uint32_t>(i) ^ key) >= limit;
      mask[i] = keep ? 1 : 0;
      y[i] = keep ? scale * x[i] : 0;
    }
  };
}

Prepared dropout_backward(const Call& c, int) {
  const int64_t n = c.shape[0];
  const float scale = 1 / (1 - c.scalars.at(0));
  return [=](std::span<float* const> o, const IterationState&) {
    float* dx = o[0];
    const float* dy = o[1];
    const auto* mask = reinterpret_cast<const uint8_t*>(o[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = scale * static_cast<float>(mask[i]) * dy[i];
  };
}

/// row(offsets) for every combination of the outer indices; `N` operands.
template <std::size_t N, typename Row>
void walk(const Strided& s, const Row& row) {
  std::array<int64_t, Strided::kMostDims> index{};
  std::array<int64_t, N> at{};
  for (std::size_t o = 0; o < N; ++o) at[o] = s.offsets[o];
  const std::size_t outer = s.sizes.size() - 1;
  for (;;) {
    row(at);
    std::size_t d = outer;
    for (; d-- > 0;) {
      for (std::size_t o = 0; o < N; ++o) at[o] += s.strides[o][d];
      if (++index[d] < s.sizes[d]) break;
      for (std::size_t o = 0; o < N; ++o) at[o] -= s.strides[o][d] * s.sizes[d];
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

Prepared move(const Call& c, int) {
  const Strided s = Strided::unpack(c.shape, 2).simplified();
  const int64_t n = s.sizes.back(), sy = s.strides[0].back(), sx = s.strides[1].back();
  return [=](std::span<float* const> o, const IterationState&) {
    walk<2>(s, [&](const std::array<int64_t, 2>& at) {
      float* y = o[0] + at[0];
      const float* x = o[1] + at[1];
      if (!s.adds && sy == 1 && sx == 1) {
        std::copy_n(x, n, y);
      } else if (s.adds && sy == 1 && sx == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) y[i] += x[i];
      } else if (s.adds && sy == 0) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; ++i) sum += x[i * sx];
        *y += sum;
      } else if (s.adds) {
        for (int64_t i = 0; i < n; ++i) y[i * sy] += x[i * sx];
      } else {
        for (int64_t i = 0; i < n; ++i) y[i * sy] = x[i * sx];
      }
    });
  };
}

Prepared product(const Call& c, int) {
  const Strided s = Strided::unpack(c.shape, 3).simplified();
  const int64_t n = s.sizes.back(), sy = s.strides[0].back(), sa = s.strides[1].back(),
                sb = s.strides[2].back();
  return [=](std::span<float* const> o, const IterationState&) {
    walk<3>(s, [&](const std::array<int64_t, 3>& at) {
      float* y = o[0] + at[0];
      const float *a = o[1] + at[1], *b = o[2] + at[2];
      if (s.adds && sy == 0) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; ++i) sum += a[i * sa] * b[i * sb];
        *y += sum;
      } else if (s.adds) {
        for (int64_t i = 0; i < n; ++i) y[i * sy] += a[i * sa] * b[i * sb];
      } else if (sy == 1 && sa == 1 && sb == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
      } else {
        for (int64_t i = 0; i < n; ++i) y[i * sy] = a[i * sa] * b[i * sb];
      }
    });
  };
}

}  // namespace

void add_elementwise(Table& t) {
  set(t, Function::unary, unary);
  set(t, Function::unary_backward, unary_backward);
  set(t, Function::dropout, dropout);
  set(t, Function::dropout_backward, dropout_backward);
  set(t, Function::move, move);
  set(t, Function::product, product);
}

}  // namespace tandem::exec::cpu

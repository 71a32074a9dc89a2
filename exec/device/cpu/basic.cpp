// SPDX-License-Identifier: Apache-2.0
// Fills, copies, sums and optimiser updates: loops that the compiler vectorises.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "exec/device/averaging.h"
#include "exec/device/compression.h"
#include "exec/device/cpu/kernel.h"
#include "models/optimizer.h"

namespace tandem::exec::cpu {

namespace {

Prepared fill(const Call& c, int) {
  const int64_t n = c.shape[0];
  const float value = c.scalars.at(0);
  return [=](std::span<float* const> o, const IterationState&) { std::fill_n(o[0], n, value); };
}

Prepared copy(const Call& c, int) {
  const auto bytes = static_cast<std::size_t>(c.shape[0]) * sizeof(float);
  return [=](std::span<float* const> o, const IterationState&) { std::memcpy(o[0], o[1], bytes); };
}

Prepared sum(const Call& c, int) {
  const int64_t n = c.shape[0];
  return [=](std::span<float* const> o, const IterationState&) {
    float* y = o[0];
    const float *a = o[1], *b = o[2];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
  };
}

/// Rows of few columns are joined until they fill whole vectors, four such wide rows are taken at a time: a
/// sum costs by its elements, whatever the number of columns.
Prepared column_sum(const Call& c, int) {
  constexpr int64_t kVector = 16, kWide = 4 * kVector;
  const int64_t rows = c.shape[0], columns = c.shape[1];
  int64_t joined = 1;
  if (columns < kWide) {
    joined = kVector / std::gcd(columns, kVector);
    joined *= (kWide + joined * columns - 1) / (joined * columns);
  }
  const int64_t width = joined * columns, whole = rows / (4 * joined) * 4 * joined;
  auto wide = std::make_shared<std::vector<float>>(static_cast<std::size_t>(width));
  return [=](std::span<float* const> o, const IterationState&) {
    float* w = wide->data();
    std::fill_n(w, width, 0.0F);
    for (int64_t r = 0; r < whole; r += 4 * joined) {
      const float *a = o[1] + r * columns, *b = a + width, *d = b + width, *e = d + width;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) w[i] += (a[i] + b[i]) + (d[i] + e[i]);
    }
    for (int64_t r = whole; r < rows; ++r) {
      const float* x = o[1] + r * columns;
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) w[i] += x[i];
    }
    for (int64_t k = 1; k < joined; ++k) {
      for (int64_t i = 0; i < columns; ++i) w[i] += w[k * columns + i];
    }
    std::copy_n(w, columns, o[0]);
  };
}

Prepared row_sum(const Call& c, int) {
  const int64_t batch = c.shape[0], rows = c.shape[1], columns = c.shape[2];
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < rows; ++r) {
      float total = 0;
      for (int64_t b = 0; b < batch; ++b) {
        const float* x = o[1] + (b * rows + r) * columns;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < columns; ++i) total += x[i];
      }
      o[0][r] = total;
    }
  };
}

// Optimisers. Constants are the papers' defaults: momentum 0.9 (Sutskever 2013); Adam 0.9, 0.999, 1e-8
// (Kingma 2015); AdamW's decay 0.01 (Loshchilov 2019); RMSProp 0.99 (PyTorch's default of Tieleman's rule).
void sgd(int64_t n, std::span<float* const> o, const IterationState& s) {
  float* p = o[0];
  const float* g = o[1];
  const float rate = s.learning_rate * s.gradient_scale;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] -= rate * g[i];
}

void momentum(int64_t n, std::span<float* const> o, const IterationState& s) {
  float *p = o[0], *v = o[2];
  const float* g = o[1];
  const float rate = s.learning_rate, scale = s.gradient_scale;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    v[i] = 0.9F * v[i] + scale * g[i];
    p[i] -= rate * v[i];
  }
}

void adam(int64_t n, std::span<float* const> o, const IterationState& s, float decay) {
  float *p = o[0], *m = o[2], *v = o[3];
  const float* g = o[1];
  const auto t = static_cast<double>(s.updates);
  const auto unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t)));
  const auto rate = static_cast<float>(s.learning_rate / (1 - std::pow(0.9, t)));
  const float scale = s.gradient_scale, keep = 1 - s.learning_rate * decay;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = scale * g[i];
    m[i] = 0.9F * m[i] + 0.1F * x;
    v[i] = 0.999F * v[i] + 0.001F * x * x;
    p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) * unbias + 1e-8F);
  }
}

void rmsprop(int64_t n, std::span<float* const> o, const IterationState& s) {
  float *p = o[0], *v = o[2];
  const float* g = o[1];
  const float rate = s.learning_rate, scale = s.gradient_scale;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = scale * g[i];
    v[i] = 0.99F * v[i] + 0.01F * x * x;
    p[i] -= rate * x / (std::sqrt(v[i]) + 1e-8F);
  }
}

Prepared update(const Call& c, int) {
  const int64_t n = c.shape[0];
  const std::string_view rule = optimizers().at(static_cast<std::size_t>(c.shape[1])).name;
  if (rule == "sgd") return [=](std::span<float* const> o, const IterationState& s) { sgd(n, o, s); };
  if (rule == "momentum")
    return [=](std::span<float* const> o, const IterationState& s) { momentum(n, o, s); };
  if (rule == "adam") return [=](std::span<float* const> o, const IterationState& s) { adam(n, o, s, 0); };
  if (rule == "adamw" || rule == "adamw-paged")
    return [=](std::span<float* const> o, const IterationState& s) { adam(n, o, s, 0.01F); };
  if (rule == "lamb") return lamb(c);
  if (rule == "adafactor") return adafactor(c);
  if (rule == "adamw-8bit" || rule == "adamw-8bit-paged") return adamw_8bit(c);
  TANDEM_CHECK(rule == "rmsprop");
  return [=](std::span<float* const> o, const IterationState& s) { rmsprop(n, o, s); };
}

Prepared average(const Call& c, int) {
  return [run = host_average(c)](std::span<float* const> o, const IterationState&) { run(o); };
}

Prepared compression(const Call& c, int) {
  return [run = host_compression(c)](std::span<float* const> o, const IterationState&) { run(o); };
}

}  // namespace

namespace {

/// Numbers of 2 bytes in words that are called floats.
struct Fp16Numbers {
  static void store(unsigned char* at, float v) {
    const auto half = static_cast<_Float16>(v);
    std::memcpy(at, &half, 2);
  }
  static float load(const unsigned char* at) {
    _Float16 half = 0;
    std::memcpy(&half, at, 2);
    return static_cast<float>(half);
  }
};
struct Bf16Numbers {
  static void store(unsigned char* at, float v) {
    const auto bits = std::bit_cast<uint32_t>(v);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;  // must not be rounded to infinity
    const auto half =
        static_cast<uint16_t>(nan ? bits >> 16 | 0x40U : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
    std::memcpy(at, &half, 2);
  }
  static float load(const unsigned char* at) {
    uint16_t half = 0;
    std::memcpy(&half, at, 2);
    return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
  }
};
template <typename Work>
void with_numbers(bool fp16, const Work& work) {
  fp16 ? work(Fp16Numbers{}) : work(Bf16Numbers{});
}

}  // namespace

void narrow(float* to, const float* from, bool fp16, int64_t elements) {
  auto* out = reinterpret_cast<unsigned char*>(to);
  with_numbers(fp16, [&](auto numbers) {
    for (int64_t i = 0; i < elements; ++i) numbers.store(out + 2 * i, from[i]);
  });
}

void upcast(float* to, const float* from, bool fp16, int64_t elements) {
  const auto* in = reinterpret_cast<const unsigned char*>(from);
  with_numbers(fp16, [&](auto numbers) {
    for (int64_t i = 0; i < elements; ++i) to[i] = numbers.load(in + 2 * i);
  });
}

void accumulate_half(float* to, const float* from, bool fp16, int64_t words) {
  auto* sums = reinterpret_cast<unsigned char*>(to);
  const auto* in = reinterpret_cast<const unsigned char*>(from);
  with_numbers(fp16, [&](auto numbers) {
    for (int64_t i = 0; i < 2 * words; ++i)
      numbers.store(sums + 2 * i, numbers.load(sums + 2 * i) + numbers.load(in + 2 * i));
  });
}

void accumulate(float* to, const float* from, int64_t elements) {
#pragma omp simd
  for (int64_t i = 0; i < elements; ++i) to[i] += from[i];
}

void add_basic(Table& t) {
  set(t, Function::fill, fill);
  set(t, Function::copy, copy);
  set(t, Function::sum, sum);
  set(t, Function::column_sum, column_sum);
  set(t, Function::row_sum, row_sum);
  set(t, Function::update, update);
  set(t, Function::average, average);
  for (const Function f : {Function::compress, Function::orthogonalise, Function::decompress})
    set(t, f, compression);
}

}  // namespace tandem::exec::cpu

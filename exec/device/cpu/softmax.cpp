// SPDX-License-Identifier: Apache-2.0
// Softmax, cross-entropy and mean squared error, a row at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/math.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

Prepared softmax(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < rows; ++r) {
      float* y = o[0] + r * n;
      const float* x = o[1] + r * n;
      const float top = largest(x, n);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; ++i) sum += y[i] = fast_exp(x[i] - top);
      const float scale = 1 / sum;
      for (int64_t i = 0; i < n; ++i) y[i] *= scale;
    }
  };
}

Prepared softmax_backward(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < rows; ++r) {
      float* dx = o[0] + r * n;
      const float *y = o[1] + r * n, *dy = o[2] + r * n;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < n; ++i) dot += y[i] * dy[i];
      for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - dot);
    }
  };
}

const int32_t* integers(const float* p) { return reinterpret_cast<const int32_t*>(p); }

Prepared cross_entropy(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* label = integers(o[3]);
    double loss = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = o[2] + r * n;
      const float top = largest(x, n);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; ++i) sum += fast_exp(x[i] - top);
      const float shift = o[1][r] = top + std::log(sum);
      if (label[r] >= 0) loss -= static_cast<double>(x[label[r]] - shift);
    }
    o[0][0] = static_cast<float>(loss / static_cast<double>(rows));
  };
}

Prepared cross_entropy_backward(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  const float scale = c.scalars.at(0) / static_cast<float>(rows);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* label = integers(o[3]);
    for (int64_t r = 0; r < rows; ++r) {
      float* dx = o[0] + r * n;
      const float* x = o[1] + r * n;
      const float shift = o[2][r];
      if (label[r] < 0) {
        std::fill_n(dx, n, 0.0F);
        continue;
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] = scale * fast_exp(x[i] - shift);
      dx[label[r]] -= scale;
    }
  };
}

Prepared cross_entropy_part(const Call& c, int) {
  const ClassesShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* label = integers(o[2]);
    for (int64_t r = 0; r < s.rows; ++r) {
      float* numbers = o[0] + s.numbers(s.part, r);
      const float* x = o[1] + r * s.columns;
      const float top = s.classes > 0 ? largest(x, s.classes) : std::numeric_limits<float>::lowest();
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < s.classes; ++i) sum += fast_exp(x[i] - top);
      numbers[0] = top;
      numbers[1] = sum;
      numbers[2] = s.holds(label[r]) ? x[label[r] - s.first()] : 0;
    }
  };
}

Prepared cross_entropy_join(const Call& c, int) {
  const ClassesShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    const float* numbers = o[2];
    const int32_t* label = integers(o[3]);
    double loss = 0;
    for (int64_t r = 0; r < s.rows; ++r) {
      float top = numbers[s.numbers(0, r)], sum = 0, target = 0;
      for (int64_t p = 1; p < s.parts; ++p) top = std::max(top, numbers[s.numbers(p, r)]);
      for (int64_t p = 0; p < s.parts; ++p) {
        const float* of = numbers + s.numbers(p, r);
        sum += of[1] * fast_exp(of[0] - top);
        target += of[2];
      }
      const float shift = o[1][r] = top + std::log(sum);
      if (label[r] >= 0) loss -= static_cast<double>(target - shift);
    }
    o[0][0] = static_cast<float>(loss / static_cast<double>(s.rows));
  };
}

Prepared cross_entropy_part_backward(const Call& c, int) {
  const ClassesShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* label = integers(o[3]);
    const float scale = 1 / static_cast<float>(s.rows);
    for (int64_t r = 0; r < s.rows; ++r) {
      float* dx = o[0] + r * s.columns;
      const float* x = o[1] + r * s.columns;
      const float shift = o[2][r];
      const int64_t classes = label[r] < 0 ? 0 : s.classes;
#pragma omp simd
      for (int64_t i = 0; i < classes; ++i) dx[i] = scale * fast_exp(x[i] - shift);
      std::fill_n(dx + classes, s.columns - classes, 0.0F);
      if (s.holds(label[r])) dx[label[r] - s.first()] -= scale;
    }
  };
}

Prepared mse(const Call& c, int) {
  const int64_t n = c.shape[0];
  return [=](std::span<float* const> o, const IterationState&) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(o[1][i]) - static_cast<double>(o[2][i]);
      sum += d * d;
    }
    o[0][0] = static_cast<float>(sum / static_cast<double>(n));
  };
}

Prepared mse_backward(const Call& c, int) {
  const int64_t n = c.shape[0];
  const float scale = c.scalars.at(0) * 2 / static_cast<float>(n);
  return [=](std::span<float* const> o, const IterationState&) {
    float* d = o[0];
    const float *a = o[1], *b = o[2];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) d[i] = scale * (a[i] - b[i]);
  };
}

}  // namespace

void add_softmax(Table& t) {
  set(t, Function::softmax, softmax);
  set(t, Function::softmax_backward, softmax_backward);
  set(t, Function::cross_entropy, cross_entropy);
  set(t, Function::cross_entropy_backward, cross_entropy_backward);
  set(t, Function::cross_entropy_part, cross_entropy_part);
  set(t, Function::cross_entropy_join, cross_entropy_join);
  set(t, Function::cross_entropy_part_backward, cross_entropy_part_backward);
  set(t, Function::mse, mse);
  set(t, Function::mse_backward, mse_backward);
}

}  // namespace tandem::exec::cpu

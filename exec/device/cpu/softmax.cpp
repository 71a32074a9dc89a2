// SPDX-License-Identifier: Apache-2.0
// Softmax, cross-entropy and mean squared error, a row at a time.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/math.h"

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
      float* logp = o[1] + r * n;
      const float* x = o[2] + r * n;
      const float top = largest(x, n);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; ++i) sum += fast_exp(x[i] - top);
      const float shift = top + std::log(sum);
      for (int64_t i = 0; i < n; ++i) logp[i] = x[i] - shift;
      if (label[r] >= 0) loss -= static_cast<double>(logp[label[r]]);
    }
    o[0][0] = static_cast<float>(loss / static_cast<double>(rows));
  };
}

Prepared cross_entropy_backward(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1];
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* label = integers(o[2]);
    const float scale = 1 / static_cast<float>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      float* dx = o[0] + r * n;
      const float* logp = o[1] + r * n;
      if (label[r] < 0) {
        std::fill_n(dx, n, 0.0F);
        continue;
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] = scale * fast_exp(logp[i]);
      dx[label[r]] -= scale;
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
  set(t, Function::mse, mse);
  set(t, Function::mse_backward, mse_backward);
}

}  // namespace tandem::exec::cpu

// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: which rows go to which expert, their way there and back, and products of the rows that
// each expert has, however many these are. Sums are in the order of rows and choices.
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/math.h"
#include "exec/device/cpu/onednn.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

int32_t* integers(float* p) { return reinterpret_cast<int32_t*>(p); }

void scores_of(const RouteShape& s, float* y, const float* x) {
  if (s.score == RouteShape::Score::sigmoid) {
    for (int64_t e = 0; e < s.experts; ++e) y[e] = 1 / (1 + std::exp(-x[e]));
    return;
  }
  const float top = largest(x, s.experts);
  float sum = 0;
  for (int64_t e = 0; e < s.experts; ++e) sum += y[e] = std::exp(x[e] - top);
  for (int64_t e = 0; e < s.experts; ++e) y[e] /= sum;
}

/// The largest logits of a row, largest first.
void choose(const RouteShape& s, int32_t* choices, const float* logits) {
  for (int64_t j = 0; j < s.active; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < s.experts; ++e) {
      const bool taken = std::find(choices, choices + j, static_cast<int32_t>(e)) != choices + j;
      if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
    }
    choices[j] = static_cast<int32_t>(best);
  }
}

void place_all(const RouteShape& s, int32_t* places, int32_t* counts, const int32_t* choices) {
  std::fill_n(counts, s.experts, 0);
  for (int64_t i = 0; i < s.rows * s.active; ++i) ++counts[choices[i]];
  std::vector<int32_t> next(static_cast<std::size_t>(s.experts));
  for (std::size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + counts[e - 1];
  for (int64_t i = 0; i < s.rows * s.active; ++i) places[i] = next[static_cast<std::size_t>(choices[i])]++;
}

void place_within_capacity(const RouteShape& s, int32_t* places, int32_t* counts, const int32_t* choices) {
  std::fill_n(counts, s.experts, 0);
  for (int64_t j = 0; j < s.active; ++j) {
    for (int64_t i = j; i < s.rows * s.active; i += s.active) {
      const int32_t e = choices[i];
      places[i] = counts[e] < s.capacity ? static_cast<int32_t>(e * s.capacity) + counts[e]++ : -1;
    }
  }
  std::fill_n(counts, s.experts, static_cast<int32_t>(s.capacity));  // padding goes, too
}

Prepared route(const Call& c, int) {
  const RouteShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    int32_t *choices = integers(o[1]), *places = integers(o[2]), *counts = integers(o[3]);
    for (int64_t r = 0; r < s.rows; ++r) {
      float *weights = o[0] + r * s.active, *scores = o[4] + r * s.experts;
      int32_t* chosen = choices + r * s.active;
      scores_of(s, scores, o[5] + r * s.experts);
      choose(s, chosen, o[5] + r * s.experts);
      float sum = 0;
      for (int64_t j = 0; j < s.active; ++j) sum += scores[chosen[j]];
      for (int64_t j = 0; j < s.active; ++j)
        weights[j] = s.scale * scores[chosen[j]] / (s.normalised ? sum : 1);
    }
    if (s.capacity > 0)
      place_within_capacity(s, places, counts, choices);
    else
      place_all(s, places, counts, choices);
  };
}

/// With scores s and their sum S over the chosen: w = scale s, or scale s / S.
Prepared route_backward(const Call& c, int) {
  const RouteShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < s.rows; ++r) {
      float* dx = o[0] + r * s.experts;
      const float *dw = o[1] + r * s.active, *y = o[3] + r * s.experts;
      const int32_t* chosen = integers(o[2]) + r * s.active;
      float sum = 0, dot = 0;
      for (int64_t j = 0; j < s.active; ++j) sum += y[chosen[j]], dot += dw[j] * y[chosen[j]];
      const float factor = s.normalised ? s.scale / sum : s.scale, mean = s.normalised ? dot / sum : 0;
      std::fill_n(dx, s.experts, 0.0F);
      for (int64_t j = 0; j < s.active; ++j) dx[chosen[j]] = factor * (dw[j] - mean);
      if (s.score == RouteShape::Score::sigmoid) {
        for (int64_t e = 0; e < s.experts; ++e) dx[e] *= y[e] * (1 - y[e]);
        continue;
      }
      float of_all = 0;
      for (int64_t j = 0; j < s.active; ++j) of_all += dx[chosen[j]] * y[chosen[j]];
      for (int64_t e = 0; e < s.experts; ++e) dx[e] = y[e] * (dx[e] - of_all);
    }
  };
}

Prepared dispatch(const Call& c, int) {
  const DispatchShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* places = integers(o[2]);
    std::fill_n(o[0], s.padded * s.width, 0.0F);
    for (int64_t i = 0; i < s.rows * s.active; ++i) {
      if (places[i] >= 0) std::copy_n(o[1] + i / s.active * s.width, s.width, o[0] + places[i] * s.width);
    }
  };
}

Prepared combine(const Call& c, int) {
  const DispatchShape s(c);
  const bool weighted = c.operands.size() > 3;
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* places = integers(o[2]);
    for (int64_t r = 0; r < s.rows; ++r) {
      float* y = o[0] + r * s.width;
      std::fill_n(y, s.width, 0.0F);
      for (int64_t i = r * s.active; i < (r + 1) * s.active; ++i) {
        if (places[i] < 0) continue;
        const float weight = weighted ? o[3][i] : 1;
        const float* x = o[1] + places[i] * s.width;
#pragma omp simd
        for (int64_t k = 0; k < s.width; ++k) y[k] += weight * x[k];
      }
    }
  };
}

Prepared combine_backward(const Call& c, int) {
  const DispatchShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* places = integers(o[4]);
    std::fill_n(o[0], s.padded * s.width, 0.0F);
    for (int64_t i = 0; i < s.rows * s.active; ++i) {
      o[1][i] = 0;
      if (places[i] < 0) continue;
      const float weight = o[5][i];
      float* dx = o[0] + places[i] * s.width;
      const float *x = o[3] + places[i] * s.width, *dy = o[2] + i / s.active * s.width;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t k = 0; k < s.width; ++k) dot += dy[k] * x[k];
#pragma omp simd
      for (int64_t k = 0; k < s.width; ++k) dx[k] = weight * dy[k];
      o[1][i] = dot;
    }
  };
}

Prepared expert_gemm(const Call& c, int threads) {
  const ExpertGroups g(c);
  const int64_t* own = c.shape.data() + ExpertGroups::kSizes;
  const int64_t n = own[0], k = own[1], bias_row = own[4], bias_at = own[5];
  const bool transposed = own[2] != 0, adds = own[3] != 0, bias = c.operands.size() > 4;
  set_threads(threads);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* counts = integers(o[3]);
    int64_t first = 0;
    for (int64_t e = 0; e < g.experts; ++e) {
      const int64_t m = g.rows(counts, e);
      float* to = o[0] + first * n;
      for (int64_t r = 0; bias && r < m; ++r) std::copy_n(o[4] + e * bias_row + bias_at, n, to + r * n);
      if (m > 0)
        sgemm(false, transposed, m, n, k, o[1] + first * k, k, o[2] + e * n * k, transposed ? k : n,
              adds || bias ? 1.0F : 0.0F, to, n);
      first += m;
    }
  };
}

Prepared expert_gemm_weights(const Call& c, int threads) {
  const ExpertGroups g(c);
  const int64_t n = c.shape[ExpertGroups::kSizes], k = c.shape[ExpertGroups::kSizes + 1];
  set_threads(threads);
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* counts = integers(o[3]);
    int64_t first = 0;
    for (int64_t e = 0; e < g.experts; ++e) {
      const int64_t m = g.rows(counts, e);
      float* to = o[0] + e * n * k;
      if (m > 0)
        sgemm(true, false, k, n, m, o[1] + first * k, k, o[2] + first * n, n, 0, to, n);
      else
        std::fill_n(to, n * k, 0.0F);
      first += m;
    }
  };
}

Prepared expert_column_sum(const Call& c, int) {
  const ExpertGroups g(c);
  const int64_t* own = c.shape.data() + ExpertGroups::kSizes;
  const int64_t columns = own[0], row = own[1], at = own[2];
  return [=](std::span<float* const> o, const IterationState&) {
    const int32_t* counts = integers(o[2]);
    const float* x = o[1];
    for (int64_t e = 0; e < g.experts; ++e) {
      float* sums = o[0] + e * row + at;
      std::fill_n(sums, columns, 0.0F);
      for (int64_t r = g.rows(counts, e); r > 0; --r, x += columns) accumulate(sums, x, columns);
    }
  };
}

Prepared gate(const Call& c, int) {
  const ExpertGroups g(c);
  const int64_t columns = c.shape[ExpertGroups::kSizes];
  const GateOf f{c.scalars[0]};
  return [=](std::span<float* const> o, const IterationState&) {
    const int64_t n = g.begin(integers(o[3]), g.experts) * columns;
    for (int64_t i = 0; i < n; ++i) o[0][i] = f.value(o[1][i], o[2][i], fast_sigmoid);
  };
}

Prepared gate_backward(const Call& c, int) {
  const ExpertGroups g(c);
  const int64_t columns = c.shape[ExpertGroups::kSizes];
  const GateOf f{c.scalars[0]};
  return [=](std::span<float* const> o, const IterationState&) {
    const int64_t n = g.begin(integers(o[5]), g.experts) * columns;
    for (int64_t i = 0; i < n; ++i) {
      const GateOf::Gradient d = f.gradient(o[3][i], o[4][i], fast_sigmoid);
      const float dy = o[2][i];
      o[0][i] = dy * d.gate;
      o[1][i] = dy * d.up;
    }
  };
}

}  // namespace

void add_experts(Table& t) {
  set(t, Function::route, route);
  set(t, Function::route_backward, route_backward);
  set(t, Function::dispatch, dispatch);
  set(t, Function::combine, combine);
  set(t, Function::combine_backward, combine_backward);
  set(t, Function::expert_gemm, expert_gemm);
  set(t, Function::expert_gemm_weights, expert_gemm_weights);
  set(t, Function::expert_column_sum, expert_column_sum);
  set(t, Function::gate, gate);
  set(t, Function::gate_backward, gate_backward);
}

}  // namespace tandem::exec::cpu

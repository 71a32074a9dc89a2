// SPDX-License-Identifier: Apache-2.0
// Adafactor (Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 and 5): the second moment of a matrix is
// kept as the means of its rows and columns; steps are clipped to a mean square of 1 and scaled by that of
// the parameter. The relative step size is the run's learning rate. Constants of the paper: epsilon 1e-30 and
// 1e-3, decay 1 - t^-0.8.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/norms.h"

namespace tandem::exec::cpu {

namespace {

constexpr float kLeastSquare = 1e-30F, kLeastScale = 1e-3F;

/// What an element's gradient is multiplied by is the product of one number of its row and one of its column;
/// of what is no matrix, a row, the latter alone.
struct AdafactorScratch {
  std::vector<double> columns;  ///< sums of squares
  std::vector<float> by_row, by_column;
};

/// Moves the moments in `state`: means of rows, then of columns.
void adafactor_moments(int64_t rows, int64_t columns, const float* g, float* state, float decay, float scale,
                       AdafactorScratch& s) {
  const bool matrix = rows > 0;
  const int64_t lines = std::max<int64_t>(1, rows);
  std::fill_n(s.columns.data(), columns, 0.0);
  double sum = 0;
  for (int64_t r = 0; r < lines; ++r) {
    const float* line = g + r * columns;
    double* const sums = s.columns.data();
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c)
      sums[c] += squared(scale * line[c]) + static_cast<double>(kLeastSquare);
    if (!matrix) continue;
    const double mean =
        sum_of(columns, [=](int64_t c) { return squared(scale * line[c]); }) / static_cast<double>(columns) +
        static_cast<double>(kLeastSquare);
    state[r] = decay * state[r] + (1 - decay) * static_cast<float>(mean);
    sum += static_cast<double>(state[r]);
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(lines));
  for (int64_t r = 0; r < lines; ++r)
    s.by_row[static_cast<std::size_t>(r)] = matrix ? 1 / std::sqrt(state[r] / mean) : 1;
  float* const moments = state + rows;
  for (int64_t c = 0; c < columns; ++c) {
    const auto k = static_cast<std::size_t>(c);
    const auto now = static_cast<float>(s.columns[k] / static_cast<double>(lines));
    moments[c] = decay * moments[c] + (1 - decay) * now;
    s.by_column[k] = 1 / std::sqrt(moments[c]);
  }
}

void adafactor_tensor(const UpdatedTensor& t, float* p, const float* g, float* state, const IterationState& i,
                      AdafactorScratch& s) {
  const int64_t n = t.elements, lines = std::max<int64_t>(1, t.rows), columns = n / lines;
  const float scale = i.gradient_scale;
  const auto decay = static_cast<float>(1 - std::pow(static_cast<double>(i.updates), -0.8));
  adafactor_moments(t.rows, columns, g, state, decay, scale, s);
  const float *by_row = s.by_row.data(), *by_column = s.by_column.data();
  double squares = 0;
  for (int64_t r = 0; r < lines; ++r) {
    const float* line = g + r * columns;
    squares +=
        sum_of(columns, [=](int64_t c) { return squared(scale * line[c] * by_row[r] * by_column[c]); });
  }
  const auto elements = static_cast<double>(n);
  const auto size = static_cast<float>(std::sqrt(squares / elements));
  const auto weight =
      static_cast<float>(std::sqrt(sum_of(n, [=](int64_t k) { return squared(p[k]); }) / elements));
  // Written so that what is no number stays none.
  const float clip = size <= 1 ? 1 : size, most = weight <= kLeastScale ? kLeastScale : weight;
  const float rate = i.learning_rate * most / clip;
  for (int64_t r = 0; r < lines; ++r) {
    float* to = p + r * columns;
    const float* line = g + r * columns;
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) to[c] -= rate * (scale * line[c] * by_row[r] * by_column[c]);
  }
}

}  // namespace

Prepared adafactor(const Call& c) {
  int64_t rows = 1, columns = 1;
  for (const UpdatedTensor& t : c.tensors) {
    rows = std::max(rows, t.rows);
    columns = std::max(columns, t.elements / std::max<int64_t>(1, t.rows));
  }
  auto scratch = std::make_shared<AdafactorScratch>();
  scratch->columns.resize(static_cast<std::size_t>(columns));
  scratch->by_column.resize(static_cast<std::size_t>(columns));
  scratch->by_row.resize(static_cast<std::size_t>(rows));
  return [tensors = c.tensors, scratch](std::span<float* const> o, const IterationState& s) {
    for (const UpdatedTensor& t : tensors) {
      if (t.elements > 0) adafactor_tensor(t, o[0] + t.first, o[1] + t.first, o[2] + t.state, s, *scratch);
    }
  };
}

}  // namespace tandem::exec::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shorthand that the files of exec/lower/passes share.
#include <cmath>
#include <utility>

#include "exec/lower/layer_calls.h"

namespace tandem::exec {

inline Call make_call(Function function, Pass pass, std::vector<TensorId> operands,
                      std::vector<int64_t> shape, std::vector<Kernel> kernels = {},
                      std::vector<float> scalars = {}) {
  Call c;
  c.function = function;
  c.pass = pass;
  c.operands = std::move(operands);
  c.shape = std::move(shape);
  c.scalars = std::move(scalars);
  c.kernels = std::move(kernels);
  return c;
}

/// Start values of a weight with that many inputs a result: uniform with the variance 2 / inputs (He et al.
/// 2015, arXiv 1502.01852, equation 10) or, before nothing that cuts half away, 1 / inputs.
inline float he_bound(int64_t inputs) { return std::sqrt(6.0F / static_cast<float>(inputs)); }
inline float lecun_bound(int64_t inputs) { return std::sqrt(3.0F / static_cast<float>(inputs)); }

/// Added to variances: the default of PyTorch's norms.
inline constexpr float kNormEpsilon = 1e-5F;

/// Strides of a batch of samples of that shape as stored: {batch, dimension...}. Three or more dimensions lie
/// channels last.
inline std::vector<int64_t> strides(const Shape& shape) {
  std::vector<int64_t> out(shape.size() + 1, 1);
  const bool last = shape.size() >= 3;
  int64_t step = last ? shape[0] : 1;
  for (std::size_t d = shape.size(); d-- > (last ? 1U : 0U);) {
    out[d + 1] = step;
    step *= shape[d];
  }
  out[0] = step;
  return out;
}

/// Sizes {batch, dimension...}.
inline std::vector<int64_t> with_batch(int64_t batch, const Shape& shape) {
  std::vector<int64_t> out{batch};
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

inline Call make_move(Pass pass, TensorId to, TensorId from, const Strided& s,
                      std::vector<Kernel> kernels = {}) {
  return make_call(Function::move, pass, {to, from}, s.pack(), std::move(kernels));
}

inline Call make_fill(Pass pass, TensorId to, int64_t elements, float value) {
  return make_call(Function::fill, pass, {to}, {elements}, {}, {value});
}

}  // namespace tandem::exec

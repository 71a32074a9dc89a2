// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/onednn.h"

#ifndef TANDEM_HAS_ONEDNN
#include <Eigen/Core>
#endif

namespace tandem::exec::cpu {

namespace {

Prepared gemm(const Call& c, int threads) {
  const int64_t m = c.shape[0], n = c.shape[1], k = c.shape[2];
  const bool ta = c.shape[3] != 0, tb = c.shape[4] != 0, adds = c.shape[5] != 0;
  const bool bias = c.operands.size() > 3;
  set_threads(threads);
  return [=](std::span<float* const> o, const IterationState&) {
    if (bias) {
      for (int64_t r = 0; r < m; ++r) std::copy_n(o[3], n, o[0] + r * n);
    }
    sgemm(ta, tb, m, n, k, o[1], ta ? m : k, o[2], tb ? k : n, adds || bias ? 1.0F : 0.0F, o[0], n);
  };
}

}  // namespace

#ifndef TANDEM_HAS_ONEDNN
void sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
           int64_t ldb, float beta, float* c, int64_t ldc, float alpha) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using View = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
  const View x(a, ta ? k : m, ta ? m : k, Eigen::OuterStride<>(lda));
  const View y(b, tb ? n : k, tb ? k : n, Eigen::OuterStride<>(ldb));
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> z(c, m, n, Eigen::OuterStride<>(ldc));
  if (beta == 0) z.setZero();
  if (ta && tb) z.noalias() += alpha * x.transpose() * y.transpose();
  if (ta && !tb) z.noalias() += alpha * x.transpose() * y;
  if (!ta && tb) z.noalias() += alpha * x * y.transpose();
  if (!ta && !tb) z.noalias() += alpha * x * y;
}
#endif

void add_gemm(Table& t) { set(t, Function::gemm, gemm); }

}  // namespace tandem::exec::cpu

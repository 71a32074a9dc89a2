// SPDX-License-Identifier: Apache-2.0
// Updates of whole matrices: apart from the optimisers, which plugins know without any layer.
#include <algorithm>
#include <utility>

#include "models/layers/layer.h"
#include "models/optimizer.h"

namespace tandem::models {

namespace {

constexpr int64_t kNewtonSchulz = 5;  // steps, as Jordan's Muon and PyTorch's make unless told otherwise

}  // namespace

std::vector<Kernel> update_kernels(const Optimizer& optimizer, const Parameter& p) {
  if (!optimizer.orthogonal || p.hidden == 0) return {update_kernel(optimizer, p.elements)};
  // Gradient and momentum are read, the momentum and what is orthogonalised written, in 2 bytes, scaled by
  // its norm (read and written once more); then parameter and step are read, and the parameter is written.
  const Bytes tensor = Bytes{4} * p.elements, half = Bytes{2} * p.elements;
  Kernel step{KernelKind::optimizer,  Pass::update,          {p.elements, 1},
              Flops{10} * p.elements, tensor * 3 + half * 2, tensor * 2 + half * 2};
  step.parts = 7;  // momentum, Nesterov's look ahead, cast, norm, division, decay, step: torch/optim/_muon.py
  std::vector<Kernel> out{std::move(step)};
  // _zeropower_via_newtonschulz: gram = X X^T, gram (b + c gram), (a + that) X, of whichever side is shorter.
  const int64_t columns = p.elements / p.hidden / p.inner, least = std::min(p.inner, columns),
                most = std::max(p.inner, columns);
  for (const auto& [n, k] : {std::pair{least, most}, {least, least}, {most, least}}) {
    out.push_back(gemm(Pass::forward, p.hidden, least, n, k, 2));
    out.back().repeat = kNewtonSchulz;
    out.back().half = true;
  }
  return out;
}

Kernel part_of_update(Kernel k, int64_t part, int64_t whole) {
  const auto scaled = [&](int64_t n) {
    return static_cast<int64_t>(static_cast<double>(n) * static_cast<double>(part) /
                                static_cast<double>(whole));
  };
  int64_t& divided = k.shape.at(k.kind == KernelKind::gemm ? 1 : 0);
  divided = std::max<int64_t>(1, scaled(divided));
  k.flops = Flops{scaled(k.flops.n)};
  k.read = Bytes{scaled(k.read.n)};
  k.written = Bytes{scaled(k.written.n)};
  return k;
}

}  // namespace tandem::models

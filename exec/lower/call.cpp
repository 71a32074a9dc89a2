// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/call.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tandem::exec {

namespace {

// Else a line each, and more of them than a block may have.
// clang-format off
constexpr std::array<std::string_view, static_cast<std::size_t>(Function::end)> kFunctionNames{
    "fill", "copy", "sum", "column-sum", "row-sum", "update", "average", "compress", "orthogonalise",
    "decompress", "gemm", "conv", "conv-backward-data", "conv-backward-weights", "max-pool",
    "max-pool-backward", "avg-pool", "avg-pool-backward", "softmax", "softmax-backward", "cross-entropy",
    "cross-entropy-backward", "cross-entropy-part", "cross-entropy-join", "cross-entropy-part-backward",
    "mse", "mse-backward", "unary", "unary-backward", "dropout", "dropout-backward", "move", "product",
    "batch-norm", "batch-norm-inference", "batch-norm-sums", "batch-norm-backward", "batch-norm-statistics",
    "batch-norm-shared", "batch-norm-relu", "batch-norm-relu-sums", "batch-norm-relu-backward", "row-norm",
    "row-norm-sums", "row-norm-backward", "lrn", "lrn-backward", "attention", "attention-backward",
    "attention-bias-backward", "attention-sinks", "attention-sinks-backward", "attention-merge", "rotary",
    "recurrent", "recurrent-backward", "embedding", "embedding-backward", "restore", "route",
    "route-backward", "dispatch", "combine", "combine-backward", "expert-gemm", "expert-gemm-weights",
    "expert-column-sum", "gate", "gate-backward"};
// clang-format on
static_assert(!kFunctionNames.back().empty());

}  // namespace

std::string_view name(Function function) { return kFunctionNames.at(static_cast<std::size_t>(function)); }

std::vector<int64_t> Strided::pack() const {
  std::vector<int64_t> out{static_cast<int64_t>(sizes.size())};
  out.insert(out.end(), sizes.begin(), sizes.end());
  for (const auto& s : strides) out.insert(out.end(), s.begin(), s.end());
  out.insert(out.end(), offsets.begin(), offsets.end());
  out.push_back(adds ? 1 : 0);
  return out;
}

Strided Strided::unpack(const std::vector<int64_t>& shape, std::size_t operands) {
  Strided s;
  const auto dims = static_cast<std::size_t>(shape.at(0));
  auto at = shape.begin() + 1;
  const auto take = [&](std::size_t n) {
    std::vector<int64_t> out(at, at + static_cast<std::ptrdiff_t>(n));
    at += static_cast<std::ptrdiff_t>(n);
    return out;
  };
  s.sizes = take(dims);
  for (std::size_t i = 0; i < operands; ++i) s.strides.push_back(take(dims));
  s.offsets = take(operands);
  s.adds = *at != 0;
  return s;
}

Strided Strided::simplified() const {
  const Strided& s = *this;
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < s.sizes.size(); ++d) {
    if (s.sizes[d] != 1) order.push_back(d);
  }
  const auto repeats = [&](const std::vector<int64_t>& strides) {
    return std::count_if(order.begin(), order.end(), [&](std::size_t d) { return strides[d] == 0; });
  };
  const auto& lead = *std::min_element(s.strides.begin(), s.strides.end(),
                                       [&](const auto& a, const auto& b) { return repeats(a) < repeats(b); });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lead[a] > lead[b]; });
  Strided out;
  out.offsets = s.offsets;
  out.adds = s.adds;
  out.strides.resize(s.strides.size());
  for (const std::size_t d : order) {
    bool joins = !out.sizes.empty();
    for (std::size_t o = 0; joins && o < s.strides.size(); ++o)
      joins = out.strides[o].back() == s.strides[o][d] * s.sizes[d];
    if (joins) {
      out.sizes.back() *= s.sizes[d];
      for (std::size_t o = 0; o < s.strides.size(); ++o) out.strides[o].back() = s.strides[o][d];
    } else {
      out.sizes.push_back(s.sizes[d]);
      for (std::size_t o = 0; o < s.strides.size(); ++o) out.strides[o].push_back(s.strides[o][d]);
    }
  }
  if (out.sizes.empty()) {
    out.sizes = {1};
    for (auto& strides : out.strides) strides = {0};
  }
  TANDEM_CHECK(out.sizes.size() <= kMostDims);
  return out;
}

}  // namespace tandem::exec

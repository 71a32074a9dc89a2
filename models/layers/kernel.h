// SPDX-License-Identifier: Apache-2.0
#pragma once
// The closed set of kernels that every layer is lowered to: the key of the cost table in sim/cost and of
// a backend's kernel table in exec. Adding a kind is rare and deliberate.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tandem::models {

/// Meaning of Kernel::shape per kind (all counts of elements, never bytes; batch included):
///   gemm         {batch, m, n, k}               `batch` products C[m,n] += A[m,k] B[k,n]
///   conv         ConvShape::pack                1 to 3 spatial dimensions, grouped, dilated, transposed
///   norm         {rows, length}                 statistics over `length`, one result per row element
///                                               (batch-norm: rows = channels, length = batch x space)
///   softmax      {rows, length}                 also cross-entropy
///   attention    {batch, heads, kv_heads, query, key, head_dim, causal, fused}   scores-softmax-values
///   elementwise  {elements, inputs}             activations, add, mul, dropout, bias, copies, concat
///   pool         {batch x channels, in, out, window}     `in`, `out`, `window` = products over space
///   embedding    {tokens, width, vocabulary}
///   optimizer    {parameters, state}            `state` = tensors kept per parameter
enum class KernelKind : uint8_t {
  gemm,
  conv,
  norm,
  softmax,
  attention,
  elementwise,
  pool,
  embedding,
  optimizer
};
inline constexpr int kKernelKinds = 9;
std::string_view name(KernelKind kind);
std::string_view summary(KernelKind kind);
/// Its time is that of matrix products or convolutions, not of streaming bytes.
constexpr bool is_product(KernelKind kind) {
  return kind == KernelKind::gemm || kind == KernelKind::conv || kind == KernelKind::attention;
}

enum class Pass : uint8_t { forward, backward_data, backward_weights, update };
inline constexpr int kPasses = 4;
std::string_view name(Pass pass);

/// One kernel launch (or `repeat` equal launches in sequence, e.g. the steps of a recurrent layer).
/// flops, read and written are of one launch and analytic: tests recompute them from `shape`.
struct Kernel {
  KernelKind kind = KernelKind::elementwise;
  Pass pass = Pass::forward;
  std::vector<int64_t> shape;
  Flops flops;
  Bytes read, written;
  int64_t repeat = 1;
  /// Kernels over the same tensors of which a framework without fused ones composes this (Recipe). 2 for a
  /// gemm: the second adds a bias to the product.
  int64_t parts = 1;
  /// Eager PyTorch composes it too, for lack of a kernel: of `parts` kernels, those of norms and losses in
  /// fp32.
  bool eager = false;
  /// Stays in 2 bytes if the model's products are in fp8: makes logits (as Transformer Engine and torchao
  /// leave it).
  bool half = false;
  /// In place although backward needs the input: eager PyTorch copies it first, by one more kernel.
  bool clones = false;
  /// Part of a layer of experts: routing, moving tokens, the experts' products (Recipe::Host::experts).
  bool routed = false;
  /// Yields the number of tokens per expert: hosts read it before they issue what depends on it.
  bool counts = false;
  /// Never fused with its neighbours: it moves all its bytes (Recipe::Kernels::stream).
  bool apart = false;
  /// Backends that fuse norms run it in the launch of the preceding batch normalisation, at little extra cost
  /// (models/fused_norm.h). In a call of exec: it was run so.
  bool fused = false;
  /// Under PyTorch's autocast its tensors have 4 bytes an element (models/autocast.h).
  bool wide = false;
  /// Elements that autocast turns into 2 bytes before it or, of gradients, during it.
  int64_t casts = 0;
  /// Adds a gradient to the sum of the earlier micro-batches (Recipe::accumulation).
  bool sums = false;
};

/// Geometry of a convolution; spatial arrays are {depth, height, width} with 1 (0 for pad) where unused.
/// For a transposed convolution `in` and `out` are those of the layer (out is the larger one).
struct ConvShape {
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1},
      pad{0, 0, 0};
  bool transposed = false;

  std::vector<int64_t> pack() const;
  static ConvShape unpack(const std::vector<int64_t>& shape);
  int64_t in_elements() const;      ///< batch x in_channels x in
  int64_t out_elements() const;     ///< batch x out_channels x out
  int64_t weight_elements() const;  ///< in_channels x out_channels / groups x kernel
  /// Multiply-adds of one pass; equal for forward, backward-data and backward-weights.
  int64_t macs() const;
};

}  // namespace tandem::models

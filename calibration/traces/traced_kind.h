// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device kernel is for, by its name.
#include <cstdint>
#include <string_view>

namespace tandem::calibration {

enum class TracedKind : uint8_t {
  convolution,
  matrix_product,
  attention,
  normalisation,
  pooling,
  softmax,
  embedding,
  optimiser,
  reduction,
  elementwise,
  copy,           ///< memcpy and memset
  communication,  ///< collectives, sends and receives
  other,
};
constexpr int kTracedKinds = static_cast<int>(TracedKind::other) + 1;

/// "matrix product".
std::string_view name(TracedKind kind);

/// By words in the names that cuDNN, cuBLAS, CUTLASS, MIOpen, hipBLASLt, NCCL, RCCL, PyTorch, Triton and
/// FBGEMM give their kernels, and ATen its operators ("aten::addmm"). A matrix product that a convolution
/// calls counts as a product: its name does not tell.
TracedKind kind_of_kernel(std::string_view name);
/// "all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "send-receive" by the
/// kernel of NCCL or RCCL or by the name of an operator ("nccl:_all_gather_base", "allreduce"); "" for
/// others. NCCL runs an all-to-all as sends and receives.
std::string_view collective_of_name(std::string_view name);

}  // namespace tandem::calibration

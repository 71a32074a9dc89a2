// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/kernel_kind.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace tandem::calibration {

namespace {

struct KernelWord {
  std::string_view word;  ///< in lower case
  KernelKind kind;
};

// The first that is found in the name decides.
constexpr KernelWord kKernelWords[] = {
    {"nccl", KernelKind::communication},
    {"rccl", KernelKind::communication},
    {"msccl", KernelKind::communication},
    {"nvshmem", KernelKind::communication},
    {"deep_ep", KernelKind::communication},
    {"::ep::", KernelKind::communication},
    {"cross_device_reduce", KernelKind::communication},
    {"symm_mem", KernelKind::communication},
    {"memcpy", KernelKind::copy},
    {"memset", KernelKind::copy},
    {"copybuffer", KernelKind::copy},
    {"fillbuffer", KernelKind::copy},
    {"flash", KernelKind::attention},
    {"fmha", KernelKind::attention},
    {"attention", KernelKind::attention},
    {"attn", KernelKind::attention},
    {"sdpa", KernelKind::attention},
    {"embedding", KernelKind::embedding},
    {"index_select", KernelKind::embedding},
    {"indexselect", KernelKind::embedding},
    {"permute_pooled_embs", KernelKind::embedding},
    {"linearize_index", KernelKind::embedding},
    {"multi_tensor_apply", KernelKind::optimiser},
    {"fused_adam", KernelKind::optimiser},
    {"adamw", KernelKind::optimiser},
    {"lamb_", KernelKind::optimiser},
    {"bn_fw", KernelKind::normalisation},
    {"bn_bw", KernelKind::normalisation},
    {"batch_norm", KernelKind::normalisation},
    {"batchnorm", KernelKind::normalisation},
    {"layer_norm", KernelKind::normalisation},
    {"layernorm", KernelKind::normalisation},
    {"rms_norm", KernelKind::normalisation},
    {"rmsnorm", KernelKind::normalisation},
    {"group_norm", KernelKind::normalisation},
    {"rowwisemoments", KernelKind::normalisation},
    {"gammabeta", KernelKind::normalisation},
    {"pool", KernelKind::pooling},
    {"softmax", KernelKind::softmax},
    {"nll_loss", KernelKind::softmax},
    {"cross_entropy", KernelKind::softmax},
    {"conv_depthwise", KernelKind::convolution},
    {"winograd", KernelKind::convolution},
    {"scudnn", KernelKind::convolution},
    {"cudnn::cnn", KernelKind::convolution},
    {"cudnn::gemm", KernelKind::convolution},
    {"cudnn::detail", KernelKind::convolution},
    {"cudnn::ops", KernelKind::convolution},
    {"cudnn_", KernelKind::convolution},
    {"dgrad", KernelKind::convolution},
    {"wgrad", KernelKind::convolution},
    {"fprop", KernelKind::convolution},
    {"conv2d", KernelKind::convolution},
    {"conv3d", KernelKind::convolution},
    {"convolve", KernelKind::convolution},
    {"convolution", KernelKind::convolution},
    {"miopen", KernelKind::convolution},
    {"igemm_", KernelKind::convolution},
    {"im2col", KernelKind::convolution},
    {"fft2d", KernelKind::convolution},
    {"gemm", KernelKind::matrix_product},
    {"gemv", KernelKind::matrix_product},
    {"cutlass", KernelKind::matrix_product},
    {"cijk_", KernelKind::matrix_product},
    {"nvjet", KernelKind::matrix_product},
    {"cublas", KernelKind::matrix_product},
    {"splitkreduce", KernelKind::matrix_product},
    {"xmma", KernelKind::matrix_product},
    {"triton_mm", KernelKind::matrix_product},
    {"triton_red", KernelKind::reduction},
    {"triton_per", KernelKind::reduction},
    {"reduce_kernel", KernelKind::reduction},
    {"reducekernel", KernelKind::reduction},
    {"triton_poi", KernelKind::elementwise},
    {"elementwise", KernelKind::elementwise},
    {"catarraybatchedcopy", KernelKind::elementwise},
    {"dropout", KernelKind::elementwise},
    {"pointwise", KernelKind::elementwise},
    {"fillfunctor", KernelKind::elementwise},
    {"cast_to_fp8", KernelKind::elementwise},
    {"transpose", KernelKind::elementwise},
};

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::string_view name(KernelKind kind) {
  static constexpr std::string_view kNames[kKernelKinds] = {
      "convolution", "matrix product", "attention", "normalisation", "pooling",
      "softmax",     "embedding",      "optimiser", "reduction",     "elementwise",
      "copy",        "communication",  "other"};
  return kNames[static_cast<int>(kind)];
}

KernelKind kind_of_kernel(std::string_view name) {
  const std::string lower = in_lower_case(name);
  const auto found = std::find_if(std::begin(kKernelWords), std::end(kKernelWords), [&](const KernelWord& w) {
    return lower.find(w.word) != std::string::npos;
  });
  return found == std::end(kKernelWords) ? KernelKind::other : found->kind;
}

std::string_view collective_of_name(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"reduce_scatter", "reduce-scatter"},
      {"reducescatter", "reduce-scatter"},
      {"all_reduce", "all-reduce"},
      {"allreduce", "all-reduce"},
      {"all_gather", "all-gather"},
      {"allgather", "all-gather"},
      {"all_to_all", "all-to-all"},
      {"alltoall", "all-to-all"},
      {"broadcast", "broadcast"},
      {"sendrecv", "send-receive"},
      {"send", "send-receive"},
      {"recv", "send-receive"},
      {"reduce", "reduce"},
      {"gather", "gather"},
      {"scatter", "scatter"},
  };
  const std::string lower = in_lower_case(name.substr(0, name.find('(')));
  for (const auto& [word, kind] : kKinds) {
    if (lower.find(word) != std::string::npos) return kind;
  }
  return "";
}

}  // namespace tandem::calibration

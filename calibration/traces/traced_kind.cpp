// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/traced_kind.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace tandem::calibration {

namespace {

struct KernelWord {
  std::string_view word;  ///< in lower case
  TracedKind kind;
};

// The first that is found in the name decides.
constexpr KernelWord kKernelWords[] = {
    {"nccl", TracedKind::communication},
    {"rccl", TracedKind::communication},
    {"msccl", TracedKind::communication},
    {"nvshmem", TracedKind::communication},
    {"deep_ep", TracedKind::communication},
    {"::ep::", TracedKind::communication},
    {"cross_device_reduce", TracedKind::communication},
    {"symm_mem", TracedKind::communication},
    {"memcpy", TracedKind::copy},
    {"memset", TracedKind::copy},
    {"copybuffer", TracedKind::copy},
    {"fillbuffer", TracedKind::copy},
    {"flash", TracedKind::attention},
    {"fmha", TracedKind::attention},
    {"attention", TracedKind::attention},
    {"attn", TracedKind::attention},
    {"sdpa", TracedKind::attention},
    {"embedding", TracedKind::embedding},
    {"index_select", TracedKind::embedding},
    {"indexselect", TracedKind::embedding},
    {"permute_pooled_embs", TracedKind::embedding},
    {"linearize_index", TracedKind::embedding},
    {"multi_tensor_apply", TracedKind::optimiser},
    {"fused_adam", TracedKind::optimiser},
    {"adamw", TracedKind::optimiser},
    {"lamb_", TracedKind::optimiser},
    {"bn_fw", TracedKind::normalisation},
    {"bn_bw", TracedKind::normalisation},
    {"batch_norm", TracedKind::normalisation},
    {"batchnorm", TracedKind::normalisation},
    {"layer_norm", TracedKind::normalisation},
    {"layernorm", TracedKind::normalisation},
    {"rms_norm", TracedKind::normalisation},
    {"rmsnorm", TracedKind::normalisation},
    {"group_norm", TracedKind::normalisation},
    {"rowwisemoments", TracedKind::normalisation},
    {"gammabeta", TracedKind::normalisation},
    {"pool", TracedKind::pooling},
    {"softmax", TracedKind::softmax},
    {"nll_loss", TracedKind::softmax},
    {"cross_entropy", TracedKind::softmax},
    {"conv_depthwise", TracedKind::convolution},
    {"winograd", TracedKind::convolution},
    {"scudnn", TracedKind::convolution},
    {"cudnn::cnn", TracedKind::convolution},
    {"cudnn::gemm", TracedKind::convolution},
    {"cudnn::detail", TracedKind::convolution},
    {"cudnn::ops", TracedKind::convolution},
    {"cudnn_", TracedKind::convolution},
    {"dgrad", TracedKind::convolution},
    {"wgrad", TracedKind::convolution},
    {"fprop", TracedKind::convolution},
    {"conv2d", TracedKind::convolution},
    {"conv3d", TracedKind::convolution},
    {"convolve", TracedKind::convolution},
    {"convolution", TracedKind::convolution},
    {"miopen", TracedKind::convolution},
    {"igemm_", TracedKind::convolution},
    {"im2col", TracedKind::convolution},
    {"fft2d", TracedKind::convolution},
    {"aten::_foreach", TracedKind::optimiser},
    {"aten::_fused_", TracedKind::optimiser},
    {"aten::mm", TracedKind::matrix_product},
    {"aten::addmm", TracedKind::matrix_product},
    {"aten::bmm", TracedKind::matrix_product},
    {"aten::baddbmm", TracedKind::matrix_product},
    {"aten::linear", TracedKind::matrix_product},
    {"gemm", TracedKind::matrix_product},
    {"gemv", TracedKind::matrix_product},
    {"cutlass", TracedKind::matrix_product},
    {"cijk_", TracedKind::matrix_product},
    {"nvjet", TracedKind::matrix_product},
    {"cublas", TracedKind::matrix_product},
    {"splitkreduce", TracedKind::matrix_product},
    {"xmma", TracedKind::matrix_product},
    {"triton_mm", TracedKind::matrix_product},
    {"triton_red", TracedKind::reduction},
    {"triton_per", TracedKind::reduction},
    {"reduce_kernel", TracedKind::reduction},
    {"reducekernel", TracedKind::reduction},
    {"triton_poi", TracedKind::elementwise},
    {"elementwise", TracedKind::elementwise},
    {"catarraybatchedcopy", TracedKind::elementwise},
    {"dropout", TracedKind::elementwise},
    {"pointwise", TracedKind::elementwise},
    {"fillfunctor", TracedKind::elementwise},
    {"cast_to_fp8", TracedKind::elementwise},
    {"transpose", TracedKind::elementwise},
};

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::string_view name(TracedKind kind) {
  static constexpr std::string_view kNames[kTracedKinds] = {
      "convolution", "matrix product", "attention", "normalisation", "pooling",
      "softmax",     "embedding",      "optimiser", "reduction",     "elementwise",
      "copy",        "communication",  "other"};
  return kNames[static_cast<int>(kind)];
}

TracedKind kind_of_kernel(std::string_view name) {
  const std::string lower = in_lower_case(name);
  const auto found = std::find_if(std::begin(kKernelWords), std::end(kKernelWords), [&](const KernelWord& w) {
    return lower.find(w.word) != std::string::npos;
  });
  return found == std::end(kKernelWords) ? TracedKind::other : found->kind;
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

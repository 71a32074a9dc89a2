// SPDX-License-Identifier: Apache-2.0
#include "models/layers/kernel.h"

namespace tandem::models {

namespace {

struct KindText {
  std::string_view name, summary;
};
constexpr std::array<KindText, kKernelKinds> kKinds{{
    {"gemm", "matrix products, alone or in batches"},
    {"conv", "convolutions in 1 to 3 dimensions: grouped, dilated, transposed"},
    {"norm", "statistics over a length, then scaling: batch, layer, group and RMS norm"},
    {"softmax", "softmax and cross-entropy over a length"},
    {"attention", "scores, softmax and values; fused (no score matrix in memory) or not"},
    {"elementwise", "activations, sums, products, dropout, bias, copies, concatenation"},
    {"pool", "windows over space: max, average, global, upsampling"},
    {"embedding", "table look-up, and the scatter of its gradient"},
    {"optimizer", "the update of parameters and optimiser state"},
}};
constexpr std::array<std::string_view, kPasses> kPassNames{"forward", "backward-data", "backward-weights",
                                                           "update"};

int64_t volume(const std::array<int64_t, 3>& a) {
  return checked_mul(checked_mul(a[0], a[1], "a volume"), a[2], "a volume");
}

int64_t volume_product(int64_t a, int64_t b, int64_t c) {
  return checked_mul(checked_mul(a, b, "a tensor"), c, "a tensor");
}

}  // namespace

std::string_view name(KernelKind kind) { return kKinds.at(static_cast<std::size_t>(kind)).name; }
std::string_view summary(KernelKind kind) { return kKinds.at(static_cast<std::size_t>(kind)).summary; }
std::string_view name(Pass pass) { return kPassNames.at(static_cast<std::size_t>(pass)); }

std::vector<int64_t> ConvShape::pack() const {
  std::vector<int64_t> out{batch, in_channels, out_channels, groups};
  out.reserve(23);
  for (const auto* a : {&in, &this->out, &kernel, &stride, &dilation, &pad})
    out.insert(out.end(), a->begin(), a->end());
  out.push_back(transposed ? 1 : 0);
  return out;
}

ConvShape ConvShape::unpack(const std::vector<int64_t>& shape) {
  TANDEM_CHECK(shape.size() == 23);
  ConvShape s;
  s.batch = shape[0];
  s.in_channels = shape[1];
  s.out_channels = shape[2];
  s.groups = shape[3];
  std::size_t at = 4;
  for (auto* a : {&s.in, &s.out, &s.kernel, &s.stride, &s.dilation, &s.pad}) {
    for (int64_t& v : *a) v = shape[at++];
  }
  s.transposed = shape[at] != 0;
  return s;
}

int64_t ConvShape::in_elements() const { return volume_product(batch, in_channels, volume(in)); }
int64_t ConvShape::out_elements() const { return volume_product(batch, out_channels, volume(out)); }
int64_t ConvShape::weight_elements() const {
  return volume_product(in_channels, out_channels / groups, volume(kernel));
}

int64_t ConvShape::macs() const {
  // Each element on the side that the kernel slides over meets every weight of its group once.
  const int64_t positions = transposed ? checked_mul(batch, volume(in), "a convolution")
                                       : checked_mul(batch, volume(out), "a convolution");
  return checked_mul(positions, weight_elements(), "a convolution");
}

}  // namespace tandem::models

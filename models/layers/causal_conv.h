// SPDX-License-Identifier: Apache-2.0
#pragma once
// The causal convolution of each feature over its last positions that begins layers with a memory.
#include "models/layers/layer.h"

namespace tandem::models {

/// For {time, width} and `kernel` positions: appends parameters and kernels.
inline void add_causal_conv(const LayerInput& in, int64_t time, int64_t width, int64_t kernel, bool bias,
                            Lowered& out) {
  ConvShape s;
  s.batch = in.batch;
  s.in_channels = s.out_channels = s.groups = width;
  s.in = s.out = {1, 1, time};
  s.kernel = {1, 1, kernel};
  s.stride = s.dilation = {1, 1, 1};
  s.pad = {0, 0, kernel - 1};
  const int64_t size = in.element_size();
  out.parameters.push_back({"conv", product({width, kernel})});
  out.forward.push_back(convolution(Pass::forward, s, size));
  out.backward_data.push_back(convolution(Pass::backward_data, s, size));
  out.backward_weights.push_back(convolution(Pass::backward_weights, s, size));
  if (!bias) return;
  out.parameters.push_back({"conv_bias", width});
  out.backward_weights.push_back(reduction(Pass::backward_weights, s.out_elements(), width, size));
}

}  // namespace tandem::models

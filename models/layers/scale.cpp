// SPDX-License-Identifier: Apache-2.0
// A learned factor per feature: the layer scale after the branches of residual networks (Touvron et al. 2021,
// Going deeper with Image Transformers, section 2; ConvNeXt).
#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// y = x w, broadcast. Backward-data: dy w. The gradient of w is dy x, written in full, and its sum over the
/// rest, as autograd does for a broadcast product.
Lowered scale(const LayerInput& in) {
  Lowered out;
  out.output = in.only(1);
  const int64_t features = out.output[feature_axis(in.attributes, out.output)];
  const int64_t count = in.total(out.output), size = in.element_size();
  out.parameters = {{"factor", features}};
  const auto product_of = [&](Pass pass) {
    Kernel k = elementwise(pass, count, 1, size);
    k.read += Bytes{size} * features;
    return k;
  };
  out.forward = {product_of(Pass::forward)};
  out.backward_data = {product_of(Pass::backward_data)};
  out.backward_weights = {elementwise(Pass::backward_weights, count, 2, size),
                          reduction(Pass::backward_weights, count, features, size)};
  out.keeps_input = !in.frozen;
  return out;
}

}  // namespace

void register_scale(Registry<LayerType>& registry) {
  registry.add({"scale", "a learned factor of each feature, or of each channel of an image", scale});
}

}  // namespace tandem::models

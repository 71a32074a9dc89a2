// SPDX-License-Identifier: Apache-2.0
#include "models/autocast.h"

#include <algorithm>

namespace tandem::models {

namespace {

void add_casts(std::vector<Kernel>& kernels, bool last, int64_t elements) {
  if (!kernels.empty()) (last ? kernels.back() : kernels.front()).casts += elements;
}

}  // namespace

AutocastFormat autocast_format(std::string_view type) {
  for (const std::string_view matrix :
       {"linear", "tied-linear", "conv", "depthwise-conv", "conv-transpose", "attention", "grouped-linear",
        "compressed-attention", "compressor", "matmul", "rnn", "lstm", "gru"}) {
    if (type == matrix) return AutocastFormat::half;
  }
  for (const std::string_view sum : {"layer-norm", "rms-norm", "group-norm", "pixel-norm", "softmax",
                                     "cross-entropy", "mse", "softplus"}) {
    if (type == sum) return AutocastFormat::wide;
  }
  for (const std::string_view weighted : {"position-embedding", "cls-token", "scale"}) {
    if (type == weighted) return AutocastFormat::promoted;
  }
  return AutocastFormat::widest;
}

int64_t products_apart(const Layer& layer) {
  const Json* apart = layer.type == nullptr ? nullptr : layer.attributes.find("apart");
  return apart == nullptr ? 1 : apart->as_int(1, 64);
}

void mark_autocast(const std::vector<Layer>& layers, int64_t batch, std::vector<Lowered>& lowered) {
  std::vector<bool> wide(layers.size(), true);  // inputs are
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    if (layer.type == nullptr || layer.output.empty()) continue;  // a loss says itself what it moves
    const AutocastFormat format = autocast_format(layer.type->name);
    wide[i] = format == AutocastFormat::wide || format == AutocastFormat::promoted ||
              (format == AutocastFormat::widest && std::any_of(layer.inputs.begin(), layer.inputs.end(),
                                                               [&](uint32_t from) { return wide[from]; }));
    Lowered& own = lowered[i];
    for (auto* kernels : {&own.forward, &own.backward_data, &own.backward_weights}) {
      for (Kernel& k : *kernels) k.wide = wide[i] && k.kind != KernelKind::gemm && k.kind != KernelKind::conv;
    }
    // Of each weight a copy in the forward pass, and its gradient back.
    for (const Parameter& p : layer.parameters) {
      if (format != AutocastFormat::half) break;
      add_casts(own.forward, false, p.elements);
      add_casts(own.backward_weights, true, p.elements);
    }
    for (const uint32_t from : layer.inputs) {
      if (layers[from].type == nullptr) continue;
      const int64_t elements = checked_mul(batch, models::elements(layers[from].output), "a tensor");
      if (!wide[i] && wide[from]) {
        add_casts(own.forward, false, checked_mul(elements, products_apart(layer), "a tensor"));
        add_casts(own.backward_data, true, elements);
      } else if (wide[i] && !wide[from]) {
        if (format == AutocastFormat::wide) add_casts(own.forward, false, elements);
        add_casts(lowered[from].backward_data, false, elements);
      }
    }
  }
}

}  // namespace tandem::models

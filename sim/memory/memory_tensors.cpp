// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory_tensors.h"

namespace tandem::sim {

AutocastFormat autocast_format(std::string_view type) {
  for (const std::string_view matrix : {"linear", "tied-linear", "conv", "depthwise-conv", "conv-transpose",
                                        "attention", "rnn", "lstm", "gru"}) {
    if (type == matrix) return AutocastFormat::half;
  }
  for (const std::string_view sum : {"layer-norm", "rms-norm", "group-norm", "pixel-norm", "softmax",
                                     "cross-entropy", "mse", "softplus"}) {
    if (type == sum) return AutocastFormat::wide;
  }
  return AutocastFormat::widest;
}

bool passes_gradient_on(const Layer& layer, const Lowered& lowered) {
  const std::string_view type = layer.type->name;
  return type == "add" || type == "concat" || type == "flatten" || type == "reshape" ||
         (type == "dropout" && lowered.in_place);
}

}  // namespace tandem::sim

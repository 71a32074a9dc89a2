// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory_tensors.h"

namespace tandem::sim {

bool passes_gradient_on(const Layer& layer, const Lowered& lowered) {
  const std::string_view type = layer.type->name;
  return type == "add" || type == "concat" || type == "flatten" || type == "reshape" ||
         (type == "dropout" && lowered.in_place);
}

}  // namespace tandem::sim

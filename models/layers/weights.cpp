// SPDX-License-Identifier: Apache-2.0
// Learned elements that a step holds, sums over devices and updates like all others, although its passes
// hardly use them: a token for masked patches, a pooling head, a small network that scores distances.
#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// y = x; no kernel in either pass.
Lowered weights(const LayerInput& in) {
  Lowered out;
  out.output = in.only();
  out.parameters = {{"weight", in.attributes.integer("elements", 1, 1, INT64_MAX / 64)}};
  out.in_place = true;
  return out;
}

}  // namespace

void register_weights(Registry<LayerType>& registry) {
  registry.add(
      {"weights", "passes its input on, and has learned elements that its passes hardly use", weights});
}

}  // namespace tandem::models

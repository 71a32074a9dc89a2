// SPDX-License-Identifier: Apache-2.0
#include "models/fused_norm.h"

#include <algorithm>

namespace tandem::models {

namespace {

class FusedNorms {
 public:
  FusedNorms(const std::vector<Layer>& layers, std::vector<Lowered>& lowered)
      : layers_(layers), lowered_(lowered), readers_(layers.size()) {
    for (const Layer& layer : layers) {
      for (const uint32_t from : layer.inputs) ++readers_[from];
    }
  }

  void mark(uint32_t relu) {
    if (!is(relu, "relu") && !is(relu, "relu6")) return;
    const uint32_t before = layers_[relu].inputs[0];
    if (readers_[before] != 1) return;
    const bool adds = is(before, "add");
    const uint32_t norm = adds ? later_input(before) : before;
    if (!is(norm, "batch-norm") || readers_[norm] != 1) return;
    const bool differentiated = !lowered_[relu].backward_data.empty(),
               moves = !lowered_[norm].backward_data.empty(),
               sums = moves || !lowered_[norm].backward_weights.empty();
    if (differentiated ? adds ? !moves : !sums : sums) return;
    mark_all(lowered_[relu].forward);
    mark_all(lowered_[relu].backward_data);
    if (adds) mark_all(lowered_[before].forward);
  }

 private:
  bool is(uint32_t layer, std::string_view type) const {
    return layers_[layer].type != nullptr && layers_[layer].type->name == type;
  }
  /// Of an addition of two tensors of one size; else itself. The other is there when that is made.
  uint32_t later_input(uint32_t add) const {
    const std::vector<uint32_t>& inputs = layers_[add].inputs;
    const bool two = inputs.size() == 2 && inputs[0] != inputs[1] &&
                     elements(layers_[inputs[0]].output) == elements(layers_[inputs[1]].output);
    return two ? std::max(inputs[0], inputs[1]) : add;
  }
  static void mark_all(std::vector<Kernel>& kernels) {
    for (Kernel& k : kernels) k.fused = true;
  }

  const std::vector<Layer>& layers_;
  std::vector<Lowered>& lowered_;
  std::vector<int64_t> readers_;  ///< [layer]: edges
};

}  // namespace

void mark_fused(const std::vector<Layer>& layers, const ModelSlice& sharing, std::vector<Lowered>& lowered) {
  if (sharing.norm_devices > 1) return;
  FusedNorms norms(layers, lowered);
  for (uint32_t i = 0; i < layers.size(); ++i) norms.mark(i);
}

}  // namespace tandem::models

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What PyTorch's autocast does to the tensors between layers: products compute in 2 bytes, sums over many
// elements in fp32, all else in the widest of its inputs (PyTorch docs, torch.amp, "CUDA Ops that can
// autocast"). So the tensors that residuals are added to have 4 bytes from the embedding on, and what
// multiplies them reads a copy in 2.
#include <string_view>
#include <vector>

#include "models/description.h"
#include "models/layers/layer.h"

namespace tandem::models {

/// In which format a layer computes under autocast: 2 bytes, 4, the widest of its inputs, or 4 without casts
/// of its inputs, because it has weights that no product reads.
enum class AutocastFormat : uint8_t { half, wide, widest, promoted };
AutocastFormat autocast_format(std::string_view type);

/// "apart" of a linear layer: that many products of one input that the model's own code has one by one.
int64_t products_apart(const Layer& layer);

/// Sets Kernel::wide and Kernel::casts of all layers, lowered for `batch` samples. O(layers).
void mark_autocast(const std::vector<Layer>& layers, int64_t batch, std::vector<Lowered>& lowered);

}  // namespace tandem::models

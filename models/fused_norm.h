// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kernels an executor makes in the launch of a batch normalisation before them. Internal to
// models.
#include <vector>

#include "models/description.h"
#include "models/layers/layer.h"
#include "models/slice.h"

namespace tandem::models {

/// Sets Kernel::fused: of every batch normalisation, over one device's samples, of which only a rectifier
/// (relu, relu6) reads, or only an addition of one more tensor of the same size that nothing but a rectifier
/// reads, it marks the rectifier's kernels and the addition's. A normalisation that is added to another one
/// made later stays by itself. `lowered`: of each layer, before gradients are summed; `sharing`: how devices
/// divide the layers. O(layers + edges).
void mark_fused(const std::vector<Layer>& layers, const ModelSlice& sharing, std::vector<Lowered>& lowered);

}  // namespace tandem::models

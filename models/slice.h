// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one device keeps of a model.
#include <cstdint>
#include <vector>

#include "base/rooms.h"

namespace tandem::models {

/// Consecutive layers, as indices into Graph::layers().
struct LayerRange {
  uint32_t first = 0, layers = 0;
  uint32_t end() const { return first + layers; }
  bool operator==(const LayerRange&) const = default;
};

/// Ranges of layers, and of those among them that split one of `ways` equal parts.
struct ModelSlice {
  std::vector<LayerRange> ranges = {};  ///< increasing, disjoint; none: all layers
  int32_t ways = 1;                     ///< devices that share each layer (tensor parallelism)
  /// Between the layers that split, each of these devices has an equal part of the sequence (Korthikanti et
  /// al. 2022, section 4.2.2): of several sequences an equal part of their positions, one after another.
  bool sequence = false;
  /// What is gathered of it for a layer stays until that layer's backward pass (PyTorch's DTensor); else it
  /// is gathered again there.
  bool keeps_inputs = false;
  /// Instead each of these devices has its own samples but in linear layers, which they all split by
  /// columns, over the samples of all (Krizhevsky 2014, arXiv 1404.5997, section 4, scheme a).
  bool samples = false;
  /// Groups of `ways` devices over which the experts of a layer are dealt evenly.
  int32_t experts = 1;
  /// Within a group each device has its own whole experts, rather than a part of each of the group's.
  bool whole_experts = false;
  /// Of experts: each takes this many times what comes to it when all get the same, no more (Lepikhin et al.
  /// 2021, GShard, section 2.2), padded up to that; 0: whatever comes, and all get the same.
  double capacity = 0;
  /// Devices that have an equal part of every sequence each, between them all of it.
  int32_t context = 1;
  /// Devices over which batch normalisation sums its statistics, each having its own samples (MegDet: Peng
  /// et al., CVPR 2018, section 3.2; PyTorch's SyncBatchNorm).
  int32_t norm_devices = 1;
  bool holds(uint32_t layer) const {
    if (ranges.empty()) return true;
    for (const LayerRange& r : ranges) {
      if (layer >= r.first && layer < r.end()) return true;
    }
    return false;
  }
  bool operator==(const ModelSlice&) const = default;
};

}  // namespace tandem::models

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the stages of a split model send each other: the outputs that the next one reads, and their gradients.
#include <map>
#include <utility>
#include <vector>

#include "schemes/program/builder.h"
#include "schemes/setup/scheme.h"
#include "schemes/step/grid_split.h"

namespace tandem::schemes {

/// For one thread at a time. What the constructor is given outlives it.
class StageMessages {
 public:
  /// `whole`: all layers, as a device that shares each holds them. `ranges`: [part] of the model
  /// (PipelineShape::part). `partners`: the axes of devices that share layers.
  StageMessages(const Workload& work, const Graph& whole, const GridSplit& split,
                const std::vector<LayerRange>& ranges, uint32_t partners)
      : work_(work), whole_(whole), split_(split), ranges_(ranges), partners_(partners) {}

  /// A channel each way between stages with neighbouring parts; its keys are the chunks. `roles`: [stage].
  /// O(layers).
  void connect(Builder& builder, std::vector<RoleBuilder> roles);

  /// What a pass over a chunk waits for: a message from the neighbour, and where that comes in parts their
  /// gather. Invalid where the chunk has none. `backward`: gradients, from the next stage.
  OpId receive(int32_t stage, const Slot& slot, bool backward);
  /// What it made goes on. Invalid likewise.
  OpId send(int32_t stage, const Slot& slot, OpId after, bool backward);

 private:
  /// Channels from a stage to one with a part after and back, which hold the same.
  struct Ways {
    uint32_t forward = 0, backward = 0;
  };
  struct End {
    bool is = false;
    uint32_t channel = 0, key = 0;
  };
  int32_t stages() const { return split_.shape.stages; }
  std::vector<uint32_t> between(int32_t part) const;
  void join(Builder& builder, int32_t from, int32_t to);
  bool replicated(const std::vector<std::vector<uint32_t>>& layers) const;
  Bytes message(const std::vector<uint32_t>& layers, int64_t parts) const;
  End end(int32_t stage, int32_t chunk, bool behind, bool backward) const;

  const Workload& work_;
  const Graph& whole_;
  const GridSplit& split_;
  const std::vector<LayerRange>& ranges_;
  uint32_t partners_ = 0;
  std::vector<RoleBuilder> roles_;                    ///< [stage]
  std::map<std::pair<int32_t, int32_t>, Ways> ways_;  ///< by stages with neighbouring parts, in their order
};

}  // namespace tandem::schemes

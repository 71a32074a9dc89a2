// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each op of a role does to the layers it works on, found in one pass over the role's list. Internal to
// exec.
#include <cstdint>
#include <utility>
#include <vector>

#include "exec/layout/stages.h"
#include "schemes/program/program.h"

namespace tandem::exec {

using FlatRange = std::pair<int64_t, int64_t>;  ///< of the flat vector, end excluded

/// Which of a step's gradients an op makes or reduces: the first, the last, both or one in between.
struct StepPosition {
  bool first = true, last = true;
};

/// What a task of a forward or backward pass consists of.
struct PassWork {
  uint32_t first = 0, count = 0;
  bool forward = true;
  bool recompute = false;         ///< neither forward nor backward: forward once more
  bool data = true;               ///< backward: the gradients of inputs
  std::vector<uint32_t> parts;    ///< [layer - first]: which part of forward, or of the inputs' gradients
  std::vector<bool> weights;      ///< [layer - first], backward: the gradients of parameters
  std::vector<FlatRange> ranges;  ///< of the flat vector, where it leaves gradients
};

/// Where a layer's calls are cut: a part begins where an exchange is issued or awaited. Increasing.
std::vector<uint32_t> part_cuts(const std::vector<ExchangedTensors>& exchanges);

/// Of one worker. Immutable once made: any thread may read it. Making it is O(ops x layers of an op).
class PassPlan {
 public:
  PassPlan(const Program& program, const Stages& stages, uint32_t worker);

  /// Of an op with layers to compute.
  const PassWork& work(uint32_t op) const { return work_[op]; }
  StepPosition position(uint32_t op) const { return positions_[op]; }
  /// Number of exchanges in the middle of passes of the op's layer before it.
  uint32_t exchanges_before(uint32_t op) const { return before_[op]; }
  /// The tensors of an op that exchanges something in the middle of a pass of layer `key`.
  const ExchangedTensors& exchanged(const ExecutionGraph& lowered, uint32_t key, uint32_t op) const;
  /// Number of similar ops before it: collectives with the same number, payload, key and micro-batch; sums of
  /// compressed gradients with the same key.
  uint32_t alike_before(uint32_t op) const { return alike_[op]; }
  /// Whether a later op computes the loss of the micro-batch again, as a master does whose workers have sent
  /// it their outputs.
  bool judged_later(uint32_t op) const { return judged_later_[op]; }
  uint32_t layers() const { return static_cast<uint32_t>(flat_.size()); }
  /// Ranges of the flat vector with the layer's parameters: disjoint, increasing.
  const std::vector<FlatRange>& parameters_of(uint32_t layer) const { return flat_[layer]; }

 private:
  struct Walk;
  void find_flat_ranges(const ExecutionGraph& lowered);
  PassWork work_of(const Walk& walk, const Program& program, const ExecutionGraph& lowered, const Op& op);
  void find_positions(const OpList& ops);

  std::vector<PassWork> work_;  ///< [op]
  std::vector<StepPosition> positions_;
  std::vector<uint32_t> before_, alike_;
  std::vector<bool> judged_later_;
  std::vector<std::vector<FlatRange>> flat_;  ///< [layer]
};

}  // namespace tandem::exec

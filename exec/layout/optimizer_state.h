// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where an optimiser's state lies, and what optimisers need that work on whole tensors. Internal to exec.
#include <cstdint>
#include <string>
#include <vector>

#include "exec/comm/store.h"
#include "exec/layout/parameter_map.h"
#include "exec/lower/execution_graph.h"
#include "schemes/program.h"

namespace tandem::exec {

/// The state of a flat vector of parameters: as many flat vectors (Optimizer::flat), or tensor by tensor in
/// the order of the vector. Made once, then only read: any thread may ask.
class OptimizerState {
 public:
  OptimizerState() = default;
  OptimizerState(const Optimizer& rule, const ExecutionGraph& lowered);

  int64_t words() const { return words_; }  ///< of 4 bytes, of all parameters
  /// All, as they lie in the vector and in the state.
  const std::vector<UpdatedTensor>& tensors() const { return tensors_; }
  /// Those of which the part has some; all of each, counted from where the part begins. O(tensors).
  std::vector<UpdatedTensor> in(const Slice& part) const;
  /// Does the part have some of a tensor without having all? O(tensors).
  bool cut_by(const Slice& part) const;

 private:
  std::vector<UpdatedTensor> tensors_;
  int64_t words_ = 0;
};

/// Of a state that lies tensor by tensor: where a slice's is in the whole model's. `pieces`: of their
/// parameters (exec/layout/parameter_map.h). Without tensors of which the slice has a part alone.
ParameterMap state_map(const OptimizerState& whole, const OptimizerState& own, const ParameterMap& pieces);

/// Has a slice with these pieces all of the model's tensor of which this is?
bool whole_here(const ParameterMap& pieces, const UpdatedTensor& own, const OptimizerState& whole);

/// What the op `update` on `part` of the role's flat vector works on where the optimiser needs whole tensors:
/// those of which no later update of the step has a part, which lie behind each other. A step's updates are
/// made one after the other, so that then all gradients of theirs are there.
Slice whole_tensors(const Program& program, const Role& role, const OptimizerState& state, uint32_t update,
                    const Slice& part);
/// Do the role's buckets cut tensors, whose parts others are told of bucket by bucket?
bool cuts_exchanged(const Program& program, uint32_t role, const OptimizerState& state);

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where an optimiser's state is stored, and what optimisers on whole tensors need. Internal to exec.
#include <cstdint>
#include <string>
#include <vector>

#include "exec/comm/store.h"
#include "exec/layout/parameter_map.h"
#include "exec/lower/execution_graph.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// The state of a flat vector of parameters: the same number of flat vectors (Optimizer::flat), or tensor by
/// tensor in the order of the vector. Made once, then only read: any thread may ask.
class OptimizerState {
 public:
  OptimizerState() = default;
  OptimizerState(const Optimizer& rule, const ExecutionGraph& lowered);

  int64_t words() const { return words_; }  ///< of 4 bytes, of all parameters
  /// All, as they are stored in the vector and in the state.
  const std::vector<UpdatedTensor>& tensors() const { return tensors_; }
  /// Those that overlap the part; each whole, with offsets relative to the part. O(tensors).
  std::vector<UpdatedTensor> in(const Slice& part) const;
  /// Whether the part contains some of a tensor but not all of it. O(tensors).
  bool cut_by(const Slice& part) const;

 private:
  std::vector<UpdatedTensor> tensors_;
  int64_t words_ = 0;
};

/// For a state stored tensor by tensor: the place of a slice's state in the whole model's. `pieces`: of their
/// parameters (exec/layout/parameter_map.h). Without tensors of which the slice has only a part.
ParameterMap state_map(const OptimizerState& whole, const OptimizerState& own, const ParameterMap& pieces);

/// Whether a slice with these pieces holds all of the model's tensor that this belongs to.
bool whole_here(const ParameterMap& pieces, const UpdatedTensor& own, const OptimizerState& whole);

/// What the op `update` on `part` of the role's flat vector works on if the optimiser needs whole tensors:
/// those that no later update of the step overlaps; they are contiguous. A step's updates run one after
/// another, so all their gradients are then complete.
Slice whole_tensors(const Program& program, const Role& role, const OptimizerState& state, uint32_t update,
                    const Slice& part);
/// Whether the role's buckets cut tensors whose parts are sent to others bucket by bucket.
bool cuts_exchanged(const Program& program, uint32_t role, const OptimizerState& state);

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every layer's calls as exec/lower/passes writes them, before memory is assigned: the second phase of making
// a Graph executable (execution_graph.cpp). Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/lower/gradient_flow.h"
#include "exec/lower/layer_calls.h"

namespace tandem::exec {

/// Tensors in the order made. One may turn out to be the memory of another.
class TensorTable {
 public:
  /// `half`: activations, and their gradients, lie in 2 bytes.
  explicit TensorTable(bool half) : half_(half) {}
  TensorId add(TensorKind kind, int64_t elements, uint32_t layer);
  TensorId add_activation(TensorKind kind, int64_t elements, uint32_t layer);
  /// `t` is from now on `of`'s memory; with itself, its own again.
  void join(TensorId t, TensorId of) { alias_[t] = of; }
  bool own(TensorId t) const { return alias_[t] == t; }
  /// Whose memory it is in the end.
  TensorId root(TensorId t) const;
  bool half() const { return half_; }
  TensorId size() const { return static_cast<TensorId>(tensors_.size()); }
  Tensor& operator[](TensorId t) { return tensors_[t]; }
  const Tensor& operator[](TensorId t) const { return tensors_[t]; }
  const std::vector<Tensor>& list() const { return tensors_; }

 private:
  bool half_;
  std::vector<Tensor> tensors_;
  std::vector<TensorId> alias_;
};

struct EmittedCalls {
  explicit EmittedCalls(bool half) : tensors(half) {}
  TensorTable tensors;  ///< without places, but weights and their gradients, which have theirs
  std::vector<std::vector<Call>> forward, backward;  ///< [layer]; operands may be another's memory
  std::vector<std::vector<Call>> recompute;          ///< [layer]: with its block (exec/lower/recompute.h)
  std::vector<LearnedTensor> learned;                ///< as ExecutionGraph::learned
  int64_t parameters = 0;                            ///< elements of the flat vector
  std::vector<LearnedTensor> frozen;                 ///< likewise, of the weights that stay
  int64_t frozen_elements = 0, frozen_words = 0;     ///< values of these, and what they take in memory
  std::vector<TensorId> inputs, labels, losses;
  TensorId logits = kNoTensor, output = kNoTensor;  ///< as ExecutionGraph's; of the last layer
  std::vector<SliceTensors> slice;                  ///< [layer]
  std::vector<bool> elsewhere;  ///< [layer]: another layer's calls make its output (fused_norm.h)
};

/// Pure but for passes_registry(), which is constant; any thread may call it. Throws InputError naming the
/// layer that cannot be executed. O(layers).
EmittedCalls emit_calls(const Graph& graph, const GradientFlow& flow, int64_t batch, bool training, bool half,
                        const SliceUse& use);

}  // namespace tandem::exec

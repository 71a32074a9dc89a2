// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Graph made executable: tensors, and the calls of every layer's passes. DeviceSession-free.
// An ExecutionGraph never changes once made: any thread may read it.
#include <memory>
#include <vector>

#include "exec/lower/gradient_flow.h"
#include "exec/lower/layer_calls.h"
#include "models/graph.h"
#include "models/optimizer.h"

namespace tandem::exec {

class ExecutionGraph {
 public:
  /// Throws InputError naming the layer (type, name) that cannot be executed. O(layers).
  /// `training` false: for evaluation (running statistics, no dropout); its backward calls are not to be run.
  /// What layers hand on, and its gradient, lies in element_bytes(precision), all else in 4 bytes.
  /// `use`: of a slice.
  ExecutionGraph(const Graph& graph, int64_t batch, bool training = true,
                 Precision precision = Precision::fp32, const SliceUse& use = {});
  ~ExecutionGraph();
  ExecutionGraph(ExecutionGraph&&) noexcept;

  const Graph& graph() const;
  int64_t batch() const;
  const std::vector<Tensor>& tensors() const;
  /// Calls of one layer in the order they are to run. Backward holds both backward passes.
  const std::vector<Call>& forward(uint32_t layer) const;
  const std::vector<Call>& backward(uint32_t layer) const;
  /// Of a layer whose block runs forward again before its backward pass; what is recomputed selectively
  /// is part of backward().
  const std::vector<Call>& recompute(uint32_t layer) const;
  /// In the order of the flat vector, which is that of the buckets of schemes/step/training.h: last layer
  /// first, a layer's last tensor first.
  const std::vector<LearnedTensor>& learned() const;
  int64_t parameters() const;  ///< elements of the flat vector
  /// Weights that stay as they are, in the same order in a separate flat vector and separate
  /// memory, in which some may take fewer bits.
  const std::vector<LearnedTensor>& frozen() const;
  int64_t frozen_elements() const;  ///< of that vector
  int64_t frozen_words() const;     ///< of 4 bytes, of that memory
  /// What lies there for such values.
  std::vector<float> stored(const std::vector<float>& frozen) const;
  int64_t input_elements() const;  ///< of the inputs' buffer: all inputs and labels of one batch
  /// Words of 4 bytes of everything else, of one micro-batch; tensors that never live together share place.
  int64_t arena() const;
  /// The same of tensors that are only of use within one pass over a chunk, with SliceUse::passes_alone: once
  /// for all micro-batches.
  int64_t passing() const;
  const std::vector<TensorId>& inputs() const;  ///< one per input of the graph, in layer order
  const std::vector<TensorId>& labels() const;  ///< one per loss
  const std::vector<TensorId>& losses() const;
  /// How many values an integer input or label may take: the vocabulary, the classes.
  int64_t values(TensorId input) const;
  const SliceTensors& slice(uint32_t layer) const;  ///< what devices exchange of the layer
  TensorId output() const;                          ///< of the last layer; for a loss its one float
  /// The tensor that the (last) loss judges, as logits, for accuracy; rows x classes.
  TensorId logits() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::exec

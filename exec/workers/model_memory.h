// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a worker's model: inputs, activations, parameters, gradients and optimiser state. Internal to
// exec.
#include <memory>
#include <vector>

#include "exec/layout/optimizer_state.h"
#include "exec/layout/shares.h"
#include "exec/workers/bench.h"

namespace tandem::exec {

/// Made by the worker's first thread, with the start values. Ops of any lane look up addresses; the contents
/// are read after the run.
class ModelMemory {
 public:
  static Needs needs(const Asked& asked);
  explicit ModelMemory(Bench& bench);

  /// Copies of the input's buffer: of several iterations if loaded in advance.
  int64_t variants() const { return variants_; }
  /// Copies of the arena and the input's buffer: of several micro-batches.
  int64_t slots() const { return slots_; }
  float* inputs(int64_t variant) const { return inputs_ + variant * graph().input_elements(); }
  /// `variant`: of the input's buffer, or the slot of a micro-batch.
  float* tensor(TensorId t, int64_t variant = 0) const;
  /// Address of an element of the flat vector, valid to the end of its bucket: where passes read parameters
  /// and leave gradients ...
  float* parameters_at(int64_t first) const { return parameters_ + held_parameters_.passes.of(first); }
  float* gradients_at(int64_t first) const { return gradients_ + held_gradients_.passes.of(first); }
  /// ... and where the worker keeps its own, valid to the end of its share.
  float* own_parameters(int64_t first) const { return parameters_ + held_parameters_.kept.of(first); }
  float* own_gradients(int64_t first) const { return gradients_ + held_gradients_.kept.of(first); }
  /// Start of both.
  float* parameters() const { return parameters_; }
  float* gradients() const { return gradients_; }
  const Held& held_parameters() const { return held_parameters_; }
  const Held& held_gradients() const { return held_gradients_; }
  /// Of the flat vector, in each vector of the state, also on the host.
  const PackedLayout& kept_state() const { return kept_state_; }
  const OptimizerState& optimizer_state() const { return optimizer_state_; }
  /// Appends the state to an update's operands, from an element of the flat vector to the end of its part of
  /// kept_state().
  void add_state(std::vector<float*>& operands, int64_t first) const;
  /// If updates are offloaded: the processors that run them, and the parameters there; else null.
  DeviceSession* host() const { return host_.get(); }
  float* host_parameters() const { return host_parameters_; }
  /// As many words as the device's copies have, on the host.
  float* allocate_on_host(int64_t words) const;

  // ---- after the run ----

  std::vector<float> read(const float* from, int64_t elements) const;
  std::vector<float> parameters_now() const;
  std::vector<float> state_now() const;

 private:
  const Execution& execution() const { return bench_.plan.execution(); }
  const ExecutionGraph& graph() const { return bench_.plan.stages().lowered(bench_.instance); }
  bool offloads() const { return execution().job.offload.optimizer; }
  void set_start_values();
  void set_start_state();
  void set_start_buffers();

  Bench& bench_;
  int64_t variants_ = 1, slots_ = 1;
  Held held_parameters_, held_gradients_;
  PackedLayout kept_state_;
  OptimizerState optimizer_state_;
  int64_t state_words_ = 0;
  std::unique_ptr<DeviceSession> host_;
  float *inputs_ = nullptr, *arena_ = nullptr, *parameters_ = nullptr, *gradients_ = nullptr,
        *frozen_ = nullptr, *host_parameters_ = nullptr;
  float* state_ = nullptr;      ///< after the parameters, or on the host
  bool state_on_host_ = false;  ///< in memory that the host reads and writes
};

}  // namespace tandem::exec

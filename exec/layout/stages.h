// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each worker trains: the whole model, or a slice of it at its position in the Program's grid of
// devices. Internal to exec.
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "exec/data/data.h"
#include "exec/layout/gather_buffers.h"
#include "exec/layout/parameter_map.h"
#include "exec/lower/execution_graph.h"
#include "exec/request/execution.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// Position of the device with that number in the grid.
struct GridPlace {
  uint32_t role = 0, instance = 0;
  uint32_t replica = 0;  ///< among the models that train on different samples
  uint32_t worker = 0;   ///< among groups of devices that train separately and average now and then
  uint32_t partner = 0;  ///< among the devices that share each of its layers
  uint32_t expert = 0;   ///< among those with different experts: also partners if experts are whole
  uint32_t holder = 0;   ///< among those with the same experts
  uint32_t context = 0;  ///< among those that divide each of its sequences
};

/// Copies of a slice's activations, one per micro-batch in flight.
struct Slots {
  int32_t count = 1;
  std::vector<int32_t> of_micro{0};  ///< [micro-batch]
};

/// A role that trains, as its instances run it.
struct Stage {
  uint32_t role = 0;
  std::unique_ptr<Graph> slice;         ///< null: the whole model
  std::vector<ExecutionGraph> lowered;  ///< [partner x contexts + context]
  Slots slots;
  int64_t experts_from = INT64_MAX;  ///< in its flat vector: where tensors of dealt experts begin
};

/// Made once, then only read: any thread may ask.
class Stages {
 public:
  /// `execution` must outlive it. Throws InputError for layers and splits that cannot be executed.
  Stages(const Execution& execution, const Program& program);

  /// The whole model, lowered for one device: the form in which parameters are drawn and returned.
  const ExecutionGraph& whole() const { return whole_; }
  uint32_t devices() const { return static_cast<uint32_t>(places_.size()); }
  uint32_t replicas() const { return replicas_; }
  /// Groups of devices that train separately: each sums gradients only over its own replicas.
  uint32_t apart() const { return apart_; }
  /// Whether partners have different samples, for which shared layers compute the gradients of all.
  bool own_samples() const { return own_samples_; }
  uint32_t contexts() const { return contexts_; }  ///< devices that divide each sequence
  /// Whether experts are dealt to devices.
  bool dealt(const Bucket& bucket) const;
  /// First element of the device's flat vector that belongs to dealt experts.
  int64_t experts_from(uint32_t device) const { return split() ? stage(device).experts_from : INT64_MAX; }
  /// The replicas whose tokens the device's experts, or whose samples its shared layers, work on.
  std::vector<uint32_t> fed_by(uint32_t device) const;
  /// A replica's samples of a step, in one pass.
  SampleShare share(uint32_t replica) const;
  /// Whether devices have batches of different size.
  bool uneven() const { return !uneven_.empty(); }
  /// Weight of the device's samples relative to the mean; 1 if batches are equal.
  double weight(uint32_t device) const {
    return static_cast<double>(lowered(device).batch()) / static_cast<double>(whole_.batch());
  }
  /// Micro-batches in one iteration of the program.
  int32_t micros() const { return static_cast<int32_t>(micros_); }
  bool split() const { return !stages_.empty(); }
  const GridPlace& place(uint32_t device) const { return places_[device]; }
  /// The graph that the device runs; whole() if the model is not split.
  const ExecutionGraph& lowered(uint32_t device) const;
  const Slots& slots(uint32_t device) const;
  /// For the device's role: memory of buckets that it holds whole only temporarily.
  const SharedGatherBuffers& gather_buffers(uint32_t device) const {
    return gather_buffers_[places_[device].role];
  }
  /// Place of the device's flat vector in that of whole().
  const ParameterMap& parameter_map(uint32_t device) const { return maps_[map_of(device)]; }
  /// The same for the frozen weights.
  const ParameterMap& frozen_map(uint32_t device) const { return frozen_maps_[map_of(device)]; }
  /// The device of an instance of a role that trains.
  uint32_t device(uint32_t role, uint32_t instance) const { return devices_of_[role][instance]; }

 private:
  void find_places(const Program& program);
  void find_gather_buffers(const Execution& execution, const Program& program);
  void lower_batches(const Execution& execution);
  void add_stage(const Execution& execution, const Program& program, uint32_t role);
  const Stage& stage(uint32_t device) const { return stages_[stage_of_role_[places_[device].role]]; }
  std::size_t map_of(uint32_t device) const;

  std::unique_ptr<Graph> synced_;  ///< the model of whole(); null: the job's
  ExecutionGraph whole_;
  std::vector<GridPlace> places_;                  ///< [device]
  std::vector<std::vector<uint32_t>> devices_of_;  ///< [role][instance]; none for servers
  std::vector<Stage> stages_;                      ///< none if the model is not split
  std::map<int64_t, ExecutionGraph> uneven_;       ///< [samples]: for devices with other batches
  std::vector<int64_t> batches_;                   ///< [device]: of those
  std::vector<uint32_t> stage_of_role_;
  std::vector<SharedGatherBuffers> gather_buffers_;  ///< [role]
  std::vector<ParameterMap> frozen_maps_;
  std::vector<ParameterMap> maps_;  ///< [(stage x partners + partner) x experts + expert], or one
  uint32_t replicas_ = 1, apart_ = 1, partners_ = 1, experts_ = 1, contexts_ = 1, micros_ = 1;
  bool own_samples_ = false;
  Slots one_;
};

/// Whether an op belongs to the passes of its micro-batch, not to the step as a whole.
bool of_micro_batch(const Op& op);

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each worker trains: the whole model, or a slice of it at a place in the Program's grid of devices.
// Internal to exec.
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "exec/data/data.h"
#include "exec/layout/gather_buffers.h"
#include "exec/layout/parameter_map.h"
#include "exec/lower/execution_graph.h"
#include "exec/request/execution.h"
#include "schemes/program.h"

namespace tandem::exec {

/// Where the device with that number is in the grid.
struct GridPlace {
  uint32_t role = 0, instance = 0;
  uint32_t replica = 0;  ///< of the models that train on samples of their own
  uint32_t worker = 0;   ///< among groups of devices that train apart and average now and then
  uint32_t partner = 0;  ///< among the devices that share each of its layers
  uint32_t expert = 0;   ///< among those that hold different experts: partners too where these are whole
  uint32_t holder = 0;   ///< among those that hold the same experts
  uint32_t context = 0;  ///< among those that divide each of its sequences
};

/// Copies of a slice's activations, one for each micro-batch under way.
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
  int64_t experts_from = INT64_MAX;  ///< of its flat vector: where tensors of dealt experts begin
};

/// Made once, then only read: any thread may ask.
class Stages {
 public:
  /// `execution` outlives it. Throws InputError: a layer that cannot be executed, and what of a split cannot.
  Stages(const Execution& execution, const Program& program);

  /// The whole model, lowered for one device: what parameters are drawn and handed back as.
  const ExecutionGraph& whole() const { return whole_; }
  uint32_t devices() const { return static_cast<uint32_t>(places_.size()); }
  uint32_t replicas() const { return replicas_; }
  /// Groups of devices that train apart: each sums gradients of its own replicas alone.
  uint32_t apart() const { return apart_; }
  /// Do partners have samples of their own, for which layers that they share make gradients of all?
  bool own_samples() const { return own_samples_; }
  uint32_t contexts() const { return contexts_; }  ///< devices that divide each sequence
  /// Of experts that are dealt over devices?
  bool dealt(const Bucket& bucket) const;
  /// Element of the device's flat vector from which on it holds dealt experts.
  int64_t experts_from(uint32_t device) const { return split() ? stage(device).experts_from : INT64_MAX; }
  /// The replicas whose tokens the device's experts work on, or whose samples the layers that it shares.
  std::vector<uint32_t> fed_by(uint32_t device) const;
  /// Which of a step's samples a replica trains on, in one pass.
  SampleShare share(uint32_t replica) const;
  /// Have devices batches of uneven size?
  bool uneven() const { return !uneven_.empty(); }
  /// What the device's samples count of those of a device in the mean; 1 where batches are equal.
  double weight(uint32_t device) const {
    return static_cast<double>(lowered(device).batch()) / static_cast<double>(whole_.batch());
  }
  /// Micro-batches in one iteration of the program.
  int32_t micros() const { return static_cast<int32_t>(micros_); }
  bool split() const { return !stages_.empty(); }
  const GridPlace& place(uint32_t device) const { return places_[device]; }
  /// What the device runs. whole() where the model is not split.
  const ExecutionGraph& lowered(uint32_t device) const;
  const Slots& slots(uint32_t device) const;
  /// Of the device's role: where buckets lie that it holds whole for a while only.
  const SharedGatherBuffers& gather_buffers(uint32_t device) const {
    return gather_buffers_[places_[device].role];
  }
  /// Where the device's flat vector lies in that of whole().
  const ParameterMap& parameter_map(uint32_t device) const { return maps_[map_of(device)]; }
  /// The same of the weights that stay as they are.
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
  std::vector<Stage> stages_;                      ///< none where the model is not split
  std::map<int64_t, ExecutionGraph> uneven_;       ///< [samples]: of devices with batches of their own
  std::vector<int64_t> batches_;                   ///< [device]: of those
  std::vector<uint32_t> stage_of_role_;
  std::vector<SharedGatherBuffers> gather_buffers_;  ///< [role]
  std::vector<ParameterMap> frozen_maps_;
  std::vector<ParameterMap> maps_;  ///< [(stage x partners + partner) x experts + expert], or one
  uint32_t replicas_ = 1, apart_ = 1, partners_ = 1, experts_ = 1, contexts_ = 1, micros_ = 1;
  bool own_samples_ = false;
  Slots one_;
};

/// An op that belongs to the passes of its micro-batch, not to the step as a whole.
bool of_micro_batch(const Op& op);

}  // namespace tandem::exec

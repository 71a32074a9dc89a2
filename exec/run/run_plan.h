// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run executes and how much of it, before anything is allocated. Internal to exec.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/layout/optimizer_state.h"
#include "exec/layout/shares.h"
#include "exec/layout/stages.h"
#include "exec/layout/store_shards.h"
#include "exec/lower/execution_graph.h"
#include "exec/request/execution.h"

namespace tandem::exec {

/// How sums of gradients become means.
struct GradientScale {
  float factor = 1;                 ///< of the sum that reaches an update on the workers ...
  uint32_t sums_until = Op::kEver;  ///< ... before this iteration; then they update by themselves
  bool each_micro_batch_sums =
      false;  ///< every micro-batch's gradients are reduced; else they are summed first
};

/// Made once, then only read: any thread may ask.
class RunPlan {
 public:
  /// `execution` and `keep` outlive it. Throws InputError: what cannot be executed, as far as that is seen
  /// here; check_executable() sees the rest.
  RunPlan(const Execution& execution, const Keep& keep);

  const Execution& execution() const { return execution_; }
  const Keep& keep() const { return keep_; }
  const Program& program() const { return program_; }
  /// The whole model: the layout of start values, results and checkpoints.
  const ExecutionGraph& execution_graph() const { return stages_.whole(); }
  /// The graph that each worker runs: its slice if the model is split.
  const Stages& stages() const { return stages_; }
  const Role& role(uint32_t instance) const { return program_.roles[stages_.place(instance).role]; }
  /// Of the whole model: the layout of its optimiser's state.
  const OptimizerState& optimizer_state() const { return optimizer_state_; }
  /// Of the parameter server, if there is one.
  const StoreShards& shards() const { return shards_; }

  // ---- how much is run ----

  /// In all processes: instances of role 0, or devices of the grid; these numbers are used everywhere below.
  uint32_t workers() const { return stages_.devices(); }
  uint32_t first_here() const { return first_here_; }
  uint32_t here() const { return here_; }  ///< this process's, from first_here() on
  /// Whether other processes have workers, too.
  bool across_processes() const { return here_ < workers(); }
  /// DeviceOptions::index of an instance of this process.
  uint32_t device_index(uint32_t instance) const;
  int32_t micro_batches() const { return program_.micro_batches; }  ///< iterations of the program in a step
  int32_t expected() const { return expected_; }  ///< iterations of each worker, if they are equal
  int32_t warmup() const { return execution_.warmup * micro_batches(); }  ///< iterations
  /// The number of warm-up iterations among `made`; at least a step remains.
  int32_t warmup_of(int32_t iterations) const {
    return std::clamp(warmup(), 0, std::max(0, iterations - micro_batches()));
  }
  /// Those done before a checkpoint.
  int64_t first_iteration() const {
    return execution_.start == nullptr ? 0 : execution_.start->iteration * micro_batches();
  }

  // ---- gradients and updates ----

  IterationState state(uint32_t instance, int32_t iteration, int32_t micro = 0) const;
  const GradientScale& gradient_scale() const { return gradient_scale_; }
  /// A step's gradients are summed in the host's memory.
  bool sums_on_host() const { return execution_.job.offload.gradients && micro_batches() > 1; }
  /// Where a step's gradients are summed on the worker that computed them, in the order of its flat vector.
  std::vector<Slice> summed_whole(uint32_t instance) const;
  /// Whether each worker updates only a share of the parameters.
  bool spreads() const { return program_.sharding.state > 1; }
  bool compresses() const { return program_.compression.kind != Compression::Kind::none; }
  /// Payload::shard of a worker: what it keeps after the reduction of its gradients; else all of the bucket.
  Slice share(uint32_t key, uint32_t instance) const;
  /// The optimiser's step on a part of a vector of parameters with this layout of the state.
  Call update_call(const OptimizerState& state, const Slice& part) const;

  // ---- collectives ----

  /// Position of a worker in a collective's groups, counted through all roles.
  GroupMember member(const Collective& collective, uint32_t instance) const {
    return member_of(program_, stages_, collective, instance);
  }
  /// Its groups of workers, [group][rank].
  std::vector<std::vector<uint32_t>> groups(const Collective& collective) const;
  /// [bucket]: the collective that scatters its gradients; -1: none.
  const std::vector<int32_t>& scattering() const { return scattering_; }
  /// Whether it is an all-reduce of gradients whose norms Keep::norms records.
  bool sums_gradients(const Op& op) const;
  /// Whether a collective moves tokens, in numbers that the router decides.
  bool carries_tokens(const Op& op) const;

 private:
  GradientScale scale_gradients() const;

  const Execution& execution_;
  const Keep& keep_;
  const Program program_;
  const Stages stages_;
  const OptimizerState optimizer_state_;
  const StoreShards shards_;
  const std::vector<int32_t> scattering_;
  const int32_t expected_;
  uint32_t first_here_ = 0, here_ = 1;
  GradientScale gradient_scale_;
};

}  // namespace tandem::exec

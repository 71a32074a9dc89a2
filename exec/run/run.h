// SPDX-License-Identifier: Apache-2.0
#pragma once
// State that the workers of one execution share. Internal to exec.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <vector>

#include "exec/comm/collective.h"
#include "exec/comm/peer_links.h"
#include "exec/comm/ranks.h"
#include "exec/comm/store.h"
#include "exec/comm/store_links.h"
#include "exec/comm/sync.h"
#include "exec/comm/tcp_transport.h"
#include "exec/layout/optimizer_state.h"
#include "exec/layout/shares.h"
#include "exec/layout/stages.h"
#include "exec/lower/execution_graph.h"
#include "exec/request/execution.h"
#include "exec/request/loss_target.h"
#include "exec/run/iterations.h"

namespace tandem::exec {

/// Made by one thread before there are workers, and destroyed by it after their threads have ended. In
/// between any thread may call the const functions; their results do not change. The headers of Abort,
/// Iterations, GroupCollective, DeviceGroup, ParameterStore and StoreLinks, where workers meet, state their
/// own rules.
class Run {
 public:
  /// `execution` and `keep` outlive it. Throws InputError (what cannot be executed) and DeviceError.
  Run(const Execution& execution, const Keep& keep);
  /// Allocates memory, threads and links: start values, transports, groups and servers. Before there are
  /// workers. Throws as above.
  void open();

  const Execution& execution() const { return execution_; }
  const Keep& keep() const { return keep_; }
  const Program& program() const { return program_; }
  /// The whole model: the layout of start(), results and checkpoints.
  const ExecutionGraph& execution_graph() const { return stages_.whole(); }
  /// The graph that each worker runs: its slice if the model is split.
  const Stages& stages() const { return stages_; }
  const Role& role(uint32_t instance) const { return program_.roles[stages_.place(instance).role]; }

  // ---- how much is run ----

  /// In all processes: instances of role 0, or devices of the grid; these numbers are used everywhere below.
  uint32_t workers() const { return workers_; }
  uint32_t first_here() const { return first_here_; }
  uint32_t here() const { return here_; }  ///< this process's, from first_here() on
  /// DeviceOptions::index of an instance of this process.
  uint32_t device_index(uint32_t instance) const {
    return static_cast<uint32_t>(ranks().local) * here_ + instance - first_here_;
  }
  int32_t micro_batches() const { return micro_batches_; }  ///< iterations of the program in a step
  int32_t expected() const { return expected_; }            ///< iterations of each worker, if they are equal
  int32_t warmup() const { return warmup_; }                ///< iterations
  /// The number of warm-up iterations among `made`; at least a step remains.
  int32_t warmup_of(int32_t iterations) const {
    return std::clamp(warmup_, 0, std::max(0, iterations - micro_batches_));
  }
  int64_t first_iteration() const { return first_iteration_; }  ///< those done before a checkpoint
  /// The group of iterations() that this instance belongs to.
  uint32_t counted_in(uint32_t instance) const { return counted_in_[instance - first_here_]; }
  /// Of the program.
  Iterations& iterations() { return *iterations_; }
  const Iterations& iterations() const { return *iterations_; }
  /// Whether it is an all-reduce of gradients whose norms Keep::norms records.
  bool sums_gradients(const Op& op) const;
  /// Null without a target.
  LossWatch* watch() { return watch_.get(); }
  const LossWatch* watch() const { return watch_.get(); }
  /// Binds the calling thread, of one of this process's workers, to the processors of its lane.
  void bind(uint32_t instance, Lane lane) const;
  /// Options that mean less here than elsewhere, in words.
  std::vector<std::string> remarks() const;
  /// Attempts before a waiting thread sleeps (Counter::wait).
  int spins() const { return spins_; }
  Abort& abort() { return abort_; }

  // ---- parameters ----

  const std::vector<float>& start() const { return start_; }  ///< flat, with which every worker begins
  /// The optimiser's, laid out as in optimizer_state(); after fetch_store() the store's at the end.
  const std::vector<float>& start_state() const { return start_state_; }
  /// Of the frozen weights, in a separate flat vector.
  const std::vector<float>& frozen() const { return frozen_; }
  /// From a checkpoint: vectors for averaging (averaging_vectors()); empty: none yet.
  const std::vector<float>& start_averaging() const { return start_averaging_; }
  IterationState state(uint32_t instance, int32_t iteration, int32_t micro = 0) const;
  /// Every micro-batch's gradients are reduced; otherwise they are summed first.
  bool sums_shares() const { return sums_shares_; }
  /// A step's gradients are summed in the host's memory.
  bool sums_on_host() const { return execution_.job.offload.gradients && micro_batches_ > 1; }
  /// Where a step's gradients are summed on the worker that computed them, in the order of its flat vector.
  std::vector<Slice> summed_whole(uint32_t instance) const;
  /// Whether each worker updates only a share of the parameters.
  bool spreads() const { return program_.sharding.state > 1; }
  /// Payload::shard of a worker: what it keeps after the reduction of its gradients; else all of the bucket.
  Slice share(uint32_t key, uint32_t instance) const;
  /// The part of a bucket that a member of a reduce-scatter among `ranks` keeps.
  Slice cut_bucket(uint32_t key, uint32_t rank, uint32_t ranks) const;

  // ---- collectives ----

  using Member = GroupMember;
  /// Position of a worker in a collective's groups, counted through all roles.
  Member member(const Collective& collective, uint32_t instance) const;
  /// `collective`: index into Program::collectives.
  GroupCollective& group(uint32_t collective, uint32_t group) { return *groups_[collective][group]; }
  /// Whether it uses the device's library, or its messages if the scheme names an algorithm. The same for all
  /// groups.
  bool library_made(uint32_t collective) const { return !library_[collective].empty(); }
  /// Period in ns at which a coordinator checks which gradients all workers have; 0: there is none.
  int64_t cycle() const { return cycle_; }
  /// Elements that it sums at once, unless a bucket is larger.
  int64_t most_fused() const { return most_fused_; }
  /// Whether the coordinator decides when the op's gradients are summed.
  bool coordinated(const Op& op) const;
  /// Group in which workers tell each other what they have.
  GroupCollective& agreement() { return *agreement_; }
  /// Null if not library_made().
  DeviceGroup* library(uint32_t collective, uint32_t group) {
    return library_made(collective) ? library_[collective][group].get() : nullptr;
  }
  /// Whether a library runs some collective of this process's workers.
  bool has_library() const;
  /// DeviceGroup::failure of any group.
  std::string library_failure() const;
  /// Called by each worker of this process when its `nth` (1 ..) graph is captured and before it is first
  /// replayed: preparing a graph allocates memory, which may wait for collectives that others' graphs would
  /// begin.
  void meet_captured(uint32_t nth);
  /// After a failure, by any thread: nobody waits for a library's collectives any more.
  void stop_library() noexcept;
  /// Whether some nodes are connected only by a Transport.
  bool has_transport() const { return transport_ != nullptr; }
  /// Transport::sent_bytes(); 0 without one.
  int64_t sent_bytes() const { return transport_ ? transport_->sent_bytes() : 0; }
  /// After a failed run, when the workers' threads have ended: nothing writes to their buffers any more.
  void stop_transport();
  /// The route of copies between devices; "" if there is no choice.
  std::string route() const;

  // ---- pipeline ----

  PeerLinks& peers() { return *peers_; }
  /// The path of a channel's messages from or to a worker; its peer has the same number in the other role.
  PeerLinks::Pair pair(uint32_t channel, uint32_t key, uint32_t instance) const;

  // ---- experts on other devices ----

  /// Whether a collective moves tokens, in numbers that the router decides.
  bool carries_tokens(const Op& op) const;
  /// Paths of tokens: from one rank of a collective's members to another.
  PeerLinks& tokens() { return *tokens_; }
  PeerLinks::Pair token_way(uint32_t collective, uint32_t group, uint32_t from, uint32_t to) const;

  // ---- parameter server ----

  ParameterStore* store() { return store_.get(); }  ///< null if the program has none
  const ParameterStore* store() const { return store_.get(); }
  StoreLinks* links() {
    return links_.get();
  }  ///< to shards on other nodes; null without a store or a transport
  const StoreLinks* links() const { return links_.get(); }
  bool apart(uint32_t instance, uint32_t shard) const { return links_ && links_->apart(instance, shard); }
  uint32_t shards() const { return shards_; }
  /// The shards with the key, or with a part of it each.
  std::ranges::iota_view<uint32_t, uint32_t> shards_of(uint32_t key) const;
  uint32_t local() const { return local_; }  ///< workers of a node that push as one
  /// Whether workers and servers exchange parameters, which only workers update.
  bool exchanges_parameters() const {
    return !program_.stores.empty() && program_.stores[0].averaging.rule != Averaging::Rule::none;
  }
  /// Flat vectors that they exchange: parameters, possibly followed by the optimiser's state.
  int64_t exchanged_vectors() const { return exchanged_vectors_; }
  /// The optimiser's step on a part of a vector of parameters with this layout of the state.
  Call update_call(const OptimizerState& state, const Slice& part) const;
  /// Of the whole model: the layout of start_state().
  const OptimizerState& optimizer_state() const { return optimizer_state_; }
  bool compresses() const { return program_.compression.kind != Compression::Kind::none; }
  /// Whether each worker has its own model in the store, which others can reach.
  bool own_models() const { return !program_.stores.empty() && program_.stores[0].own_models; }
  /// The worker whose model is averaged with this worker's.
  uint32_t partner(const Op& op, uint32_t instance, int32_t iteration) const {
    return peer_of(program_.channels[op.what].address, instance, workers_, execution_.seed,
                   static_cast<uint32_t>(iteration));
  }
  /// The bucket `key`, cut for the local rank that pushes a share of it, then cut for a shard.
  Slice slice(uint32_t key, uint32_t instance, uint32_t shard) const;
  /// After the run, by one thread: copies what servers on devices hold into the store's memory and
  /// start_state().
  void fetch_store();

 private:
  void check_executable() const;
  void check_ops(uint32_t worker) const;
  void check_gradients(const Op& op, uint32_t worker) const;
  void check_average(const Op& op, uint32_t worker) const;
  void check_compression() const;
  bool gathers_shards(const Op& op, uint32_t worker) const;
  void check_store() const;
  void check_whole_tensors() const;
  void take_checkpoint(const Checkpoint& checkpoint);
  Store::Rate rate_rule() const;
  int64_t pushes_of_warmup() const;  ///< of a worker and key
  int64_t pushing() const;           ///< workers that have a share of a key in common
  Merge updating_merge(const std::function<std::size_t(const Slice&)>& server_of, bool on_devices);
  /// Of the slice, on a server; of a worker's own state. `operands` has room for four; appended after the
  /// first two.
  std::size_t add_state(float* state, const Slice& slice, float** operands) const;
  Merge averaging_merge(const std::function<std::size_t(const Slice&)>& server_of);
  Step step_of_workers();
  std::function<void(const Slice&, const float*, float*)> unpacking() const;
  void check_offload(const Op& op, uint32_t worker) const;
  void check_calls(const ExecutionGraph& lowered) const;
  [[noreturn]] void refuse(const std::string& why) const;
  void make_cores();
  std::vector<int> communicating() const;
  void make_iterations();
  void make_watch();
  void check_route() const;
  void make_transport();
  void make_peers();
  void make_groups();
  void make_coordinator();
  std::set<uint32_t> token_collectives() const;  ///< by number
  void make_token_ways(uint32_t collective, const std::vector<std::vector<uint32_t>>& members);
  void make_group(std::size_t collective, const std::vector<uint32_t>& instances, const Member& member);
  void set_gradient_scale();
  std::vector<std::string> units() const;
  std::vector<std::unique_ptr<DeviceGroup>> library_groups(const Collective& collective,
                                                           const std::vector<std::vector<uint32_t>>& members,
                                                           uint32_t local) const;
  void make_store();
  void make_servers(bool on_devices);
  void for_each_slice(const std::function<void(const Slice&)>& visit) const;
  void make_links();

  const Execution& execution_;
  const Keep& keep_;
  Abort abort_;  ///< first: everything else may watch or wait through it
  Program program_;
  Stages stages_;
  OptimizerState optimizer_state_;
  int32_t expected_ = 0, micro_batches_ = 1, warmup_ = 0;
  int64_t first_iteration_ = 0;
  uint32_t workers_ = 1, local_ = 1, shards_ = 1;
  int64_t exchanged_vectors_ = 1;
  uint32_t first_here_ = 0, here_ = 1;
  std::unique_ptr<Iterations> iterations_;
  std::unique_ptr<LossWatch> watch_;
  std::vector<uint32_t> counted_in_;  ///< [instance of this process]
  int spins_ = 0;
  std::vector<WorkerCores> cores_;        ///< [instance of this process]; empty: nothing is bound
  std::size_t numa_nodes_ = 0;            ///< whose processors workers have
  int64_t processors_ = 0, threads_ = 0;  ///< that they have; that compute there, of all processes
  std::vector<float> start_, start_state_, start_averaging_, frozen_;
  std::vector<int32_t> cuts_;  ///< [key]: the collective that scatters the bucket's gradients; -1: none
  bool sums_shares_ = false;
  float gradient_scale_ = 1;              ///< of the sum that reaches an update on the workers ...
  uint32_t sums_until_ = Op::kEver;       ///< ... before this iteration; then they update by themselves
  std::unique_ptr<Transport> transport_;  ///< between nodes
  uint32_t channels_ = 0;                 ///< of it in use
  std::unique_ptr<PeerLinks> peers_;      ///< null where no stages exchange messages
  std::unique_ptr<PeerLinks> tokens_;     ///< null where no experts are dealt
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> token_members_;  ///< [collective, group]
  std::vector<std::vector<std::unique_ptr<GroupCollective>>> groups_;             ///< [collective][group]
  /// [collective][group]: empty where the library does not make it, null where another process has the
  /// group
  std::vector<std::vector<std::unique_ptr<DeviceGroup>>> library_;
  int64_t cycle_ = 0, most_fused_ = 0;
  std::unique_ptr<GroupCollective> agreement_;
  std::vector<float> store_start_;  ///< start_ and start_state_, where both are exchanged
  Counter captured_;                ///< workers of this process whose graph is ready
  std::unique_ptr<ParameterStore> store_;
  /// Make the store's updates: one in this process's memory, or [shard] where servers are on devices.
  std::vector<std::unique_ptr<DeviceSession>> servers_;
  std::vector<float*> server_states_;  ///< of each server: the optimiser's
  std::unique_ptr<StoreLinks> links_;
};

}  // namespace tandem::exec

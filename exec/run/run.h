// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the workers of one execution share. Internal to exec.
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "exec/comm/collective.h"
#include "exec/comm/ranks.h"
#include "exec/comm/store.h"
#include "exec/comm/store_links.h"
#include "exec/comm/sync.h"
#include "exec/comm/wire.h"
#include "exec/lower/network.h"
#include "exec/run/execute.h"
#include "exec/run/iterations.h"

namespace tandem::exec {

struct Run {
  Run(const Execution& execution, const Keep& keep);

  const Execution& execution;
  const Keep& keep;
  Abort abort;  ///< first: everything else may watch or wait through it
  Program program;
  exec::Network network;
  /// Of the program, of which a step of the optimiser takes micro_batches.
  std::unique_ptr<Iterations> iterations;
  int32_t expected = 0;             ///< so many of each worker where they are alike
  uint32_t workers = 1, local = 1;  ///< local: workers of a node that push as one
  int32_t micro_batches = 1;
  bool sums_shares = false;           ///< every micro-batch's gradients are reduced; else summed before that
  int32_t warmup = 0;                 ///< iterations of the program
  int64_t first_iteration = 0;        ///< of the program: those done before a checkpoint
  uint32_t first_here = 0, here = 1;  ///< instances of role 0 that this process plays
  float gradient_scale = 1;           ///< of the sum that reaches an update on the workers
  int spins = 0;
  std::vector<float> start;  ///< flat parameters that every worker begins with
  std::vector<float> start_state;
  std::unique_ptr<exec::Transport> wire;  ///< between nodes
  /// [collective of the program][group]
  std::vector<std::vector<std::unique_ptr<GroupCollective>>> groups;
  /// [collective][group]: made by the device's library, or of its messages where the scheme names an
  /// algorithm; empty where it does neither, null where another process plays the group
  std::vector<std::vector<std::unique_ptr<DeviceGroup>>> library;
  bool library_made(uint32_t collective) const { return !library[collective].empty(); }
  /// After a failure: nobody waits for a library's collectives any more.
  void stop_library() noexcept;
  std::unique_ptr<ParameterStore> store;
  /// Make the store's updates: one in this process's memory, or [shard] where servers are on devices.
  std::vector<std::unique_ptr<DeviceSession>> servers;
  std::vector<float*> server_states;  ///< of each server: the optimiser's, one flat vector after the other
  /// After the run: what servers on devices hold, into the store's and start_state's host memory.
  void fetch_store();
  std::unique_ptr<StoreLinks> links;  ///< to shards on other nodes; null where there are none
  uint32_t shards = 1;
  uint32_t channels = 0;  ///< of `wire` in use

  /// Whose iterations are counted together with this instance's: a group of `iterations`.
  uint32_t counted_in(uint32_t instance) const { return counted_in_[instance - first_here]; }
  /// DeviceOptions::index of an instance that this process plays.
  uint32_t device_index(uint32_t instance) const {
    return static_cast<uint32_t>(ranks().local) * here + instance - first_here;
  }

  struct Member {
    uint32_t group = 0, rank = 0, ranks = 1, local = 1;
  };
  /// Place of an instance of role 0 in a collective's groups.
  Member member(const Collective& collective, uint32_t instance) const;
  /// The way of copies between devices that was taken; "" where there is no choice.
  std::string route() const;
  IterationState state(uint32_t instance, int32_t iteration) const;
  /// The bucket `key`, cut for the local rank that pushes a share of it, cut for a shard.
  Slice slice(uint32_t key, uint32_t instance, uint32_t shard) const;
  /// Does each worker update a share of the parameters alone?
  bool spreads() const { return program.sharding.state > 1; }
  /// Payload::shard of a worker.
  Slice share(uint32_t key, uint32_t instance) const;

 private:
  void check_executable() const;
  void make_iterations();
  void check_route() const;
  void make_wire();
  void make_groups();
  std::vector<std::string> units() const;
  std::vector<std::unique_ptr<DeviceGroup>> library_groups(const Collective& collective,
                                                           const std::vector<std::vector<uint32_t>>& members,
                                                           uint32_t local) const;
  void make_store();
  void make_servers(bool on_devices);
  void for_each_slice(const std::function<void(const Slice&)>& visit) const;
  void make_links();

  std::vector<uint32_t> counted_in_;  ///< [instance of this process]
};

}  // namespace tandem::exec

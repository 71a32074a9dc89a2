// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parameter server of a run: where its shards are kept, who merges, and the links to remote ones.
// Internal to exec.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/comm/store.h"
#include "exec/comm/store_links.h"
#include "exec/device/backend.h"
#include "exec/run/network.h"
#include "exec/run/run_plan.h"
#include "exec/run/start_values.h"

namespace tandem::exec {

/// Of a program with a store. Made by one thread before there are workers, and destroyed by it after their
/// threads have ended. The headers of ParameterStore and StoreLinks state their rules.
class ParameterServer {
 public:
  /// All arguments outlive it. Throws InputError and DeviceError. What servers in this process's memory
  /// update of the optimiser's state is start.optimizer_state.
  ParameterServer(const RunPlan& plan, StartValues& start, Network& network, Abort& abort, int spins);

  ParameterStore& store() { return *store_; }
  const ParameterStore& store() const { return *store_; }
  /// To shards on other nodes; null without a transport.
  StoreLinks* links() const { return links_.get(); }
  /// After the run, by one thread: copies what servers on devices hold into the store's memory and
  /// start.optimizer_state.
  void fetch();

 private:
  void open_servers();
  ParameterStore::Setup setup();
  Store::Rate rate_rule() const;
  int64_t pushes_of_warmup() const;  ///< of a worker and key
  int64_t pushing() const;           ///< workers that have a share of a key in common
  std::size_t server_of(const Slice& slice) const { return on_devices_ ? std::size_t{slice.shard} : 0; }
  /// Of the slice, on a server; of a worker's own state. `operands` has room for four; appended after the
  /// first two.
  std::size_t add_state(float* state, const Slice& slice, float** operands) const;
  Merge updating_merge();
  Merge averaging_merge();
  Step step_of_workers();
  std::function<void(const Slice&, const float*, float*)> unpacking() const;
  void make_links(Network& network, Abort& abort);

  const RunPlan& plan_;
  const Store& rules_;
  StartValues& start_;
  std::vector<float> exchanged_;  ///< start parameters and state, where both are exchanged
  const bool on_devices_;         ///< else a server merges in host memory, where links begin as well
  std::unique_ptr<ParameterStore> store_;
  /// Make the store's updates: one in this process's memory, or [shard] where servers are on devices.
  std::vector<std::unique_ptr<DeviceSession>> servers_;
  std::vector<float*> server_states_;  ///< of each server: the optimiser's
  std::unique_ptr<StoreLinks> links_;
};

}  // namespace tandem::exec

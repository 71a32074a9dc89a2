// SPDX-License-Identifier: Apache-2.0
#pragma once
// State that the workers of one execution share. Internal to exec.
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/sync.h"
#include "exec/request/loss_target.h"
#include "exec/run/communicators.h"
#include "exec/run/coordinator.h"
#include "exec/run/core_binding.h"
#include "exec/run/iterations.h"
#include "exec/run/network.h"
#include "exec/run/parameter_server.h"
#include "exec/run/peer_paths.h"
#include "exec/run/run_plan.h"
#include "exec/run/start_values.h"

namespace tandem::exec {

/// Made by one thread before there are workers, and destroyed by it after their threads have ended. In
/// between any thread may call the const functions; their results do not change. The headers of Abort,
/// Iterations, GroupCollective, DeviceGroup, ParameterStore and StoreLinks, where workers meet, state their
/// own rules.
class Run {
 public:
  /// Allocates memory, threads and links. `plan` outlives it and has passed check_executable(). Throws
  /// InputError (what cannot be executed) and DeviceError.
  explicit Run(const RunPlan& plan);

  const RunPlan& plan() const { return plan_; }
  Abort& abort() { return abort_; }
  /// Attempts before a waiting thread sleeps (Counter::wait).
  int spins() const { return spins_; }
  const CoreBinding& cores() const { return cores_; }
  /// Options that mean less here than elsewhere, in words.
  std::vector<std::string> remarks() const;
  /// Of the program.
  Iterations& iterations() { return iterations_; }
  const Iterations& iterations() const { return iterations_; }
  /// Null without a target.
  LossWatch* watch() const { return watch_.get(); }
  const StartValues& start() const { return start_; }

  Network& network() { return *network_; }
  const Network& network() const { return *network_; }
  /// Whether some nodes are connected only by a Transport.
  bool has_transport() const { return network_->transport() != nullptr; }
  StagePaths& stage_paths() { return *stage_paths_; }
  TokenPaths& token_paths() { return *token_paths_; }
  Communicators& communicators() { return *communicators_; }
  const Communicators& communicators() const { return *communicators_; }
  Coordinator& coordinator() { return *coordinator_; }
  const Coordinator& coordinator() const { return *coordinator_; }

  /// Null if the program has no store.
  ParameterServer* server() { return server_.get(); }
  ParameterStore* store() { return server_ ? &server_->store() : nullptr; }
  const ParameterStore* store() const { return server_ ? &server_->store() : nullptr; }
  /// To shards on other nodes; null without a store or a transport.
  StoreLinks* links() const { return server_ ? server_->links() : nullptr; }
  bool apart(uint32_t instance, uint32_t shard) const {
    return links() != nullptr && links()->apart(instance, shard);
  }

 private:
  const RunPlan& plan_;
  Abort abort_;  ///< everything below may watch or wait through it
  const int spins_;
  const CoreBinding cores_;
  Iterations iterations_;
  const std::unique_ptr<LossWatch> watch_;
  StartValues start_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<StagePaths> stage_paths_;
  std::unique_ptr<TokenPaths> token_paths_;
  std::unique_ptr<Communicators> communicators_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ParameterServer> server_;
};

}  // namespace tandem::exec

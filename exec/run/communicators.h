// SPDX-License-Identifier: Apache-2.0
#pragma once
// The groups of workers that run a program's collectives together. Internal to exec.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/collective.h"
#include "exec/device/backend.h"
#include "exec/run/network.h"
#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Made by one thread; then any may call the const functions. The headers of GroupCollective and DeviceGroup
/// state their rules. A collective uses the device's library where that can for every group, in every
/// process, or the library's messages if the scheme names an algorithm; else our own messages.
class Communicators {
 public:
  /// All arguments outlive it. Throws InputError and DeviceError.
  Communicators(const RunPlan& plan, Network& network, Abort& abort, int spins);

  /// `collective`: index into Program::collectives.
  GroupCollective& group(uint32_t collective, uint32_t group) { return *groups_[collective][group]; }
  /// The same for all groups.
  bool library_made(uint32_t collective) const { return !library_[collective].empty(); }
  /// Null if not library_made().
  DeviceGroup* library(uint32_t collective, uint32_t group) {
    return library_made(collective) ? library_[collective][group].get() : nullptr;
  }
  /// Whether a library runs some collective of this process's workers.
  bool has_library() const;
  /// DeviceGroup::failure of any group.
  std::string library_failure() const;
  /// After a failure, by any thread: nobody waits for a library's collectives any more.
  void stop_library() noexcept;
  /// Called by each worker of this process when its `nth` (1 ..) graph is captured and before it is first
  /// replayed: preparing a graph allocates memory, which may wait for collectives that others' graphs would
  /// begin.
  void meet_captured(uint32_t nth);

 private:
  using Groups = std::vector<std::vector<uint32_t>>;  ///< [group][rank]: worker
  std::vector<std::unique_ptr<DeviceGroup>> library_groups(const Collective& collective,
                                                           const Groups& members, uint32_t local) const;

  const RunPlan& plan_;
  Abort& abort_;
  const int spins_;
  const bool over_links_;  ///< between nodes emulated on this machine
  std::vector<std::vector<std::unique_ptr<GroupCollective>>> groups_;  ///< [collective][group]
  /// [collective][group]: empty where the library does not make it, null where another process has the
  /// group
  std::vector<std::vector<std::unique_ptr<DeviceGroup>>> library_;
  Counter captured_;  ///< workers of this process whose graph is ready
};

}  // namespace tandem::exec

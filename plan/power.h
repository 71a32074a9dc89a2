// SPDX-License-Identifier: Apache-2.0
#pragma once
// What machines draw while they train, from where a step's time goes. Figures are data (plan/power/*.json).
#include <cstdint>
#include <optional>

#include "plan/estimate.h"
#include "schemes/report/report.h"
#include "topologies/system.h"

namespace tandem::plan {

/// Watts on average, of all nodes of a job.
struct Power {
  Estimate devices;     ///< accelerators that the job uses
  Estimate unused;      ///< other accelerators of its nodes
  Estimate processors;  ///< of the hosts
  Estimate adapters;    ///< network ports of the nodes
  Estimate boards;      ///< fans, memory, disks, switches between devices
  Estimate supplies;    ///< lost in power supplies
  Estimate network;     ///< switches between nodes; 0 for a single node
  /// At the wall of the machines; the parts err independently of each other. A building adds its own: times
  /// its PUE (plan/grid.h).
  Estimate wall() const {
    return independent_sum({devices, unused, processors, adapters, boards, supplies, network});
  }
};

/// Of a job while it trains: devices draw by what worker 0 does (TimeShare), and at most their power limit;
/// those of its nodes that it does not use are idle. `installed`: devices in its nodes, where these are not
/// filled with all that the system has; unused slots draw nothing. The report must fit, and be of this
/// system. An accelerator whose rated power is not known draws 18 to 1,400 W. Models whose kernels are too
/// small to fill a device draw less than this says. O(devices of a node) for each kind of nodes after the
/// data was read.
Power power_of(const Report& report, const System& system, std::optional<int64_t> installed = {});
/// Of nodes that are on and do nothing, with that many devices in them.
Power idle_power(const System& system, int64_t nodes, std::optional<int64_t> installed = {});

/// Joules at the wall of the machines.
inline Estimate energy(const Power& power, const Estimate& seconds) { return power.wall() * seconds; }

}  // namespace tandem::plan

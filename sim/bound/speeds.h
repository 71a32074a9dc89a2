// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a machine that no figure of its description turns at once.

#include "base/rooms.h"

namespace tandem::sim {

/// How fast these are, as multiples of what the costs say.
struct Speeds {
  double compute = 1;  ///< kernels on the devices that train
  double launch = 1;   ///< the host's work for a step: issuing operations, feeding the devices
  double server = 1;   ///< processors of servers, at applying gradients
  double timers = 1;   ///< retransmission timers of a network that loses packets
  double latency = 1;  ///< what a message or a collective takes besides its bytes: steps, software
  double library = 1;  ///< what a collective library's kernels move, where that is less than links carry
  double threads = 1;  ///< threads of network libraries, at moving bytes between nodes
  bool operator==(const Speeds&) const = default;
};

}  // namespace tandem::sim

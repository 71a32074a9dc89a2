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
  bool operator==(const Speeds&) const = default;
};

}  // namespace tandem::sim

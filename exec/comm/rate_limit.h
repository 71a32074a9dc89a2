// SPDX-License-Identifier: Apache-2.0
#pragma once
// How links between the nodes that one machine emulates are slowed down.
#include "base/units.h"

namespace tandem::exec {

/// A rate-limited link between "nodes" of one machine, so that multi-node runs can be checked anywhere.
struct RateLimit {
  Bandwidth bandwidth;  ///< payload per direction of each node's port
  Time latency;         ///< added at the receiver
};

}  // namespace tandem::exec

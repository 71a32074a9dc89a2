// SPDX-License-Identifier: Apache-2.0
#pragma once
// Torus and ring share one implementation. Internal to topologies/blocks.
#include <memory>

#include "topologies/blocks/network.h"

namespace tandem::topologies {

/// Nodes in row-major order on a torus of `shape` sizes (product = nodes). Dimension-ordered routing, the
/// shorter way round in each. Requires one port per node.
std::unique_ptr<Network> make_torus(const NetworkShape& shape, std::vector<int64_t> sizes,
                                    const Place& place);

}  // namespace tandem::topologies

// SPDX-License-Identifier: Apache-2.0
// A ring is a torus of one dimension.
#include "topologies/blocks/torus.h"

namespace tandem::topologies {

void register_ring(Registry<NetworkBlock>& registry) {
  registry.add({"ring", "nodes in a ring, both ways", {}, [](const NetworkShape& shape, const Json& spec) {
                  return make_torus(shape, {shape.nodes}, spec.place());
                }});
}

}  // namespace tandem::topologies

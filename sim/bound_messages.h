// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prices of the messages that a bound Program sends along its channels, and of what stores do with them.
//
#include <memory>
#include <vector>

#include "sim/bind.h"
#include "sim/cost/link_cost.h"
#include "sim/cost/machine.h"

namespace tandem::sim {

/// What the binder has settled when messages are priced.
struct MessageCosts {
  std::shared_ptr<LinkCost> links;
  std::vector<std::vector<VertexId>> where;       ///< of each instance, per role
  Time start_up;                                  ///< of every message
  std::vector<uint32_t> index;                    ///< of the links' resources in the plan
  std::shared_ptr<const MachineProfile> machine;  ///< null: costs come from the system's description
  Bytes step;                                     ///< what a worker's kernels move in one
};

/// `in`: its system and optimiser must outlive the result. A message costs O(1) after the first on its way.
std::shared_ptr<Plan::Messages> bound_messages(const BindInput& in, MessageCosts costs);

}  // namespace tandem::sim

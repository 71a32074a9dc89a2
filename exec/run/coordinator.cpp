// SPDX-License-Identifier: Apache-2.0
#include "exec/run/coordinator.h"

#include <algorithm>

namespace tandem::exec {

Coordinator::Coordinator(const RunPlan& plan, Network& network, Abort& abort, int spins) : plan_(plan) {
  const ResolvedScheme& scheme = *plan.execution().job.scheme;
  if (plan.workers() == 1 || plan.execution().backend->asynchronous) return;
  cycle_ = scheme.overheads.cycle.ps / 1000;
  const auto& ops = plan.program().roles[0].ops;
  const auto first =
      std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return plan.sums_gradients(op); });
  if (first == ops.end()) cycle_ = 0;
  if (cycle_ == 0) return;
  lane_ = (*first).lane;
  most_fused_ = scheme.options.bytes("bucket").n / 4;
  // Whatever stage a worker is of, it meets others along the same axes.
  const Collective& sum = plan.program().collectives[(*first).what];
  for (uint32_t i = 0; i < plan.workers(); ++i) member_.push_back(plan.member(sum, i));
  for (const std::vector<uint32_t>& workers : plan.groups(sum))
    agreements_.push_back(std::make_unique<GroupCollective>(CollKind::all_reduce, "auto", member_[0].ranks,
                                                            member_[0].local, abort, spins,
                                                            network.nodes_of(workers)));
}

bool Coordinator::decides(const Op& op) const {
  return cycle_ > 0 && op.lane == lane_ && plan_.sums_gradients(op);
}

}  // namespace tandem::exec

// SPDX-License-Identifier: Apache-2.0
#include "exec/run/coordinator.h"

#include <algorithm>
#include <numeric>

namespace tandem::exec {

Coordinator::Coordinator(const RunPlan& plan, Network& network, Abort& abort, int spins) : plan_(plan) {
  const ResolvedScheme& scheme = *plan.execution().job.scheme;
  if (plan.workers() == 1 || plan.execution().backend->asynchronous) return;
  cycle_ = scheme.overheads.cycle.ps / 1000;
  const auto& ops = plan.program().roles[0].ops;
  const auto first = std::find_if(ops.begin(), ops.end(), [this](const Op& op) { return decides(op); });
  if (first == ops.end()) cycle_ = 0;
  if (cycle_ == 0) return;
  most_fused_ = scheme.options.bytes("bucket").n / 4;
  const GroupMember m = plan.member(plan.program().collectives[(*first).what], 0);
  std::vector<uint32_t> workers(m.ranks);
  std::iota(workers.begin(), workers.end(), 0U);
  agreement_ = std::make_unique<GroupCollective>(CollKind::all_reduce, "auto", m.ranks, m.local, abort, spins,
                                                 network.nodes_of(workers));
}

bool Coordinator::decides(const Op& op) const {
  return cycle_ > 0 && op.lane == Lane::comm && plan_.sums_gradients(op);
}

}  // namespace tandem::exec

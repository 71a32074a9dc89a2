// SPDX-License-Identifier: Apache-2.0
#include "exec/run/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/comm/ranks.h"
#include "exec/comm/tcp_transport.h"

namespace tandem::exec {

Network::Network(const RunPlan& plan, Abort& abort)
    : per_node_(static_cast<uint32_t>(std::max<int64_t>(1, plan.execution().cluster.per_node))) {
  const Execution& e = plan.execution();
  const Program& program = plan.program();
  // Servers may be on separate nodes, numbered after those of the workers.
  const Role* servers = program.stores.empty() ? nullptr : &program.roles[program.stores[0].role];
  const int64_t extra = servers != nullptr && servers->site == Site::extra_nodes ? servers->mesh.size() : 0;
  if (!ranks().several() || plan.workers() == 1) {
    const int64_t nodes = e.cluster.nodes + extra;
    if (nodes > 1)
      transport_ = std::make_unique<TcpTransport>(static_cast<uint32_t>(nodes), e.rate_limit, abort);
    return;
  }
  if (e.rate_limit)
    throw InputError("--rate-limit is for nodes emulated on one machine; links between processes are real");
  if (extra > 0)
    throw InputError("servers on separate nodes would be processes without workers: only simulated");
  if (e.cluster.nodes != ranks().size)
    throw InputError(fmt::format("{} processes for {} nodes: each is one", ranks().size, e.cluster.nodes));
  transport_ = mpi_transport(abort);
}

uint32_t Network::take_channels(std::size_t count) {
  return std::exchange(channels_, channels_ + static_cast<uint32_t>(count));
}

GroupNodes Network::nodes_of(const std::vector<uint32_t>& workers) {
  GroupNodes out;
  if (!transport_) return out;
  out = {transport_.get(), take_channels(1), {}};
  for (const uint32_t w : workers) out.of_ranks.push_back(node_of(w));
  return out;
}

}  // namespace tandem::exec

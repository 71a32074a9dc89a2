// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/machine_collective.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "schemes/collectives/collectives.h"

namespace tandem::sim {

namespace {

Schedule schedule_of(CollKind kind, const std::string& algorithm, const GroupShape& group, bool between) {
  return executed_algorithm(kind, algorithm, group, between).schedule(kind, group);
}

double in_memory(const MachineProfile& machine, const Collective& c, double bytes, uint32_t ranks) {
  if (ranks < 2) return 0;
  const GroupShape group{ranks, ranks, false};
  const auto moved = [&](CollKind kind, const std::string& algorithm) {
    if (!machine.apart()) return memory_passes(schedule_of(kind, algorithm, group, false));
    return sent_share(schedule_of(kind, algorithm == "auto" ? "ring" : algorithm, group, false));
  };
  return machine.all_reduce(bytes * moved(c.kind, c.algorithm) / moved(CollKind::all_reduce, "auto"), ranks);
}

}  // namespace

MachineCollective machine_collective(const MachineProfile& machine, const Collective& c, Bytes bytes,
                                     const std::vector<int64_t>& nodes, double rate) {
  MachineCollective out;
  const auto buffer = static_cast<double>(bytes.n);
  const auto ranks = static_cast<uint32_t>(nodes.size());
  const auto on_first = std::count(nodes.begin(), nodes.end(), nodes.front());
  TANDEM_CHECK(on_first > 0);
  if (on_first == ranks) return {in_memory(machine, c, buffer, ranks), 0, 0};
  const auto local = ranks % on_first == 0 ? static_cast<uint32_t>(on_first) : 1;
  const Schedule s = schedule_of(c.kind, c.algorithm, {ranks, local, false}, true);
  const GroupShape node{local, local, false};
  const double all_reduce =
      local < 2 ? 1 : memory_passes(schedule_of(CollKind::all_reduce, "auto", node, false));
  for (const Step& step : s.steps) {
    std::map<int64_t, uint32_t> leaves;  // [node]: chunks
    for (const Move& m : step.moves) {
      if (nodes[m.from] != nodes[m.to]) leaves[nodes[m.from]] += m.count;
    }
    if (leaves.empty()) {
      out.seconds += machine.all_reduce(buffer * memory_passes(s, step) / all_reduce, local);
      continue;
    }
    uint32_t most = 0;
    for (const auto& [from, chunks] : leaves) most = std::max(most, chunks);
    const double message = buffer * most / s.chunks;
    out.seconds += step.repeat * machine.tcp_message(message, rate);
    out.cpu += step.repeat * machine.tcp_cpu(message);
    out.messages += step.repeat;
  }
  return out;
}

}  // namespace tandem::sim

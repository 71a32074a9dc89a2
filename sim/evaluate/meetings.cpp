// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/meetings.h"

#include <map>
#include <utility>

namespace tandem::sim {

Meetings::Meetings(const Program& program, const EventRoles& roles) : shared_(roles.count()) {
  for (uint32_t r = 0; r < roles.count(); ++r) {
    std::map<std::pair<uint32_t, Lane>, uint32_t> known;
    shared_[r].assign(program.collectives.size() * kLanes, UINT32_MAX);
    for (const Op& op : roles[r].ops) {
      if (op.kind != OpKind::collective) continue;
      const uint32_t axes = program.collectives[op.what].axes;
      const auto [at, fresh] = known.try_emplace({axes, op.lane}, static_cast<uint32_t>(meetings_.size()));
      shared_[r][place(op)] = at->second;
      if (!fresh) continue;
      Groups groups(roles[r].role->mesh, axes);
      const uint32_t count = groups.count();
      meetings_.push_back(
          {std::move(groups), std::vector<uint32_t>(count, 0), std::vector<uint32_t>(count, 0)});
    }
  }
}

}  // namespace tandem::sim

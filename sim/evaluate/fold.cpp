// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/fold.h"

#include <fmt/format.h>

#include <map>

#include "sim/bound/groups.h"

namespace tandem::sim {

namespace {

/// First members of the units that make a separate transfer: groups of a collective, else instances.
std::vector<uint32_t> leaders(const BoundProgram& plan, uint32_t r, const Op& op) {
  std::vector<uint32_t> out;
  const Role& role = plan.program->roles[r];
  if (op.kind == OpKind::collective) {
    const Groups groups(role.mesh, plan.program->collectives[op.what].axes);
    for (uint32_t g = 0; g < groups.count(); ++g) out.push_back(groups.first(g));
  } else {
    for (uint32_t i = 0; i < role.mesh.size(); ++i) out.push_back(i);
  }
  return out;
}

}  // namespace

int64_t units_of(const BoundProgram& plan, uint32_t r, const Op& op) {
  const Mesh& mesh = plan.program->roles[r].mesh;
  int64_t units = mesh.size();
  if (op.kind != OpKind::collective) return units;
  const uint32_t axes = plan.program->collectives[op.what].axes;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if ((axes >> a & 1U) != 0) units /= mesh.axes[a].size;
  }
  return units;
}

std::vector<std::pair<int32_t, int64_t>> transfers_of(const BoundProgram& plan, uint32_t r, uint32_t o) {
  return transfers_of(plan, r, o, plan.program->roles[r].ops[o]);
}

std::vector<std::pair<int32_t, int64_t>> transfers_of(const BoundProgram& plan, uint32_t r, uint32_t o,
                                                      const Op& op) {
  std::map<int32_t, int64_t> count;
  if (has_transfer(op)) {
    const RoleCosts& costs = plan.roles[r];
    if (costs.class_of.empty()) return {{costs.transfer.at(0).at(o), units_of(plan, r, op)}};
    for (const uint32_t i : leaders(plan, r, op)) ++count[costs.transfer[costs.class_at(i)][o]];
  }
  return {count.begin(), count.end()};
}

std::string what_differs(const BoundProgram& plan) {
  if (!plan.disturbance.none()) return "durations are drawn per instance";
  for (uint32_t r = 0; r < plan.program->roles.size(); ++r) {
    const Role& role = plan.program->roles[r];
    const RoleCosts& costs = plan.roles.at(r);
    if (costs.class_of.empty()) continue;
    for (uint32_t o = 0; o < role.ops.size(); ++o) {
      bool same = true;
      if (has_transfer(role.ops[o])) {
        const auto transfers = transfers_of(plan, r, o);
        const auto time = [&](int32_t t) {
          return t < 0 ? Time{} : plan.transfers.at(static_cast<std::size_t>(t)).alone(plan.capacity);
        };
        for (const auto& [t, units] : transfers) same = same && time(t) == time(transfers.front().first);
        // The folded row is priced as class 0 is.
        same =
            same && !transfers.empty() && time(costs.transfer.at(0).at(o)) == time(transfers.front().first);
      } else {
        for (const uint32_t c : costs.class_of) {
          same = same && costs.duration.at(c).at(o) == costs.duration[0][o];
          if (!costs.issued.empty()) same = same && costs.issued.at(c).at(o) == costs.issued[0][o];
        }
      }
      if (!same) return fmt::format("instances of {} differ in op {}", role.name, o);
    }
  }
  return "";
}

}  // namespace tandem::sim

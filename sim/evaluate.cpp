#include "sim/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/fold.h"
#include "sim/groups.h"

namespace tandem {

namespace {

uint32_t class_of(const RoleCosts& costs, uint32_t instance) {
  return costs.class_of.empty() ? 0 : costs.class_of[instance];
}

bool moves(const Op& op) { return op.kind == OpKind::copy || op.kind == OpKind::collective; }

/// First members of the units that make a transfer of their own: groups of a collective, else instances.
std::vector<uint32_t> leaders(const Plan& plan, uint32_t r, const Op& op) {
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

int64_t units_of(const Plan& plan, uint32_t r, const Op& op) {
  const Mesh& mesh = plan.program->roles[r].mesh;
  int64_t units = mesh.size();
  if (op.kind != OpKind::collective) return units;
  const uint32_t axes = plan.program->collectives[op.what].axes;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if ((axes >> a & 1U) != 0) units /= mesh.axes[a].size;
  }
  return units;
}

/// How much of one link a lane's transfers can take at once, all instances together, at the very most.
struct Load {
  double sum = 0;
  uint32_t role = 0;
  int lane = 0;
  uint32_t label = 0;  ///< of the op that takes the most
  double most = 0;
  int64_t parts = 0;  ///< instances that add to it
};

bool loads_nothing(const Plan& plan, const RoleCosts& costs, uint32_t o) {
  return std::all_of(costs.transfer.begin(), costs.transfer.end(), [&](const std::vector<int32_t>& of) {
    return of[o] < 0 || plan.transfers.at(static_cast<std::size_t>(of[o])).uses.empty();
  });
}

/// An instance's lane makes one transfer at a time, so the instance adds the largest of its ops' rates, a
/// member of a group its share of the group's. Sound: at any time the transfers of a lane run in disjoint
/// sets of instances.
void add_loads(const Plan& plan, uint32_t r, int lane, std::vector<std::vector<Load>>& loads) {
  const Role& role = plan.program->roles[r];
  const RoleCosts& costs = plan.roles[r];
  std::map<uint32_t, Groups> groups;
  std::vector<uint32_t> ops;
  for (uint32_t o = 0; o < role.ops.size(); ++o) {
    const Op& op = role.ops[o];
    if (static_cast<int>(op.lane) != lane || !moves(op)) continue;
    if (loads.empty() || loads_nothing(plan, costs, o)) continue;
    ops.push_back(o);
    if (op.kind == OpKind::collective) {
      const uint32_t axes = plan.program->collectives[op.what].axes;
      if (groups.find(axes) == groups.end()) groups.emplace(axes, Groups(role.mesh, axes));
    }
  }
  std::map<uint32_t, std::pair<double, uint32_t>> peak;  // link -> (rate, label) of one instance
  for (uint32_t i = 0; i < role.mesh.size() && !ops.empty(); ++i) {
    peak.clear();
    for (const uint32_t o : ops) {
      const Op& op = role.ops[o];
      uint32_t leader = i;
      double share = 1;
      if (op.kind == OpKind::collective) {
        const Groups& g = groups.at(plan.program->collectives[op.what].axes);
        leader = g.first(g.of(i));
        share = 1.0 / g.size();
      }
      const int32_t t = costs.transfer[class_of(costs, leader)][o];
      if (t < 0) continue;
      const Transfer& transfer = plan.transfers.at(static_cast<std::size_t>(t));
      if (transfer.uses.empty()) continue;
      const double rate = share * transfer.rate_alone(plan.capacity);
      for (const Use& use : transfer.uses) {
        auto& most = peak[use.link];
        if (rate * static_cast<double>(use.weight) > most.first) {
          most = {rate * static_cast<double>(use.weight), op.label};
        }
      }
    }
    for (const auto& [link, rate] : peak) {
      auto& list = loads[link];
      if (list.empty() || list.back().role != r || list.back().lane != lane)
        list.push_back({0, r, lane, 0, 0, 0});
      Load& load = list.back();
      load.sum += rate.first;
      ++load.parts;
      if (rate.first > load.most) {
        load.most = rate.first;
        load.label = rate.second;
      }
    }
  }
}

std::string describe(const Plan& plan, const Load& load) {
  const auto& labels = plan.program->labels;
  return fmt::format("{} ({} lane of {} instance{} of {})",
                     load.label < labels.size() ? labels[load.label] : "transfers",
                     name(static_cast<Lane>(load.lane)), load.parts, load.parts == 1 ? "" : "s",
                     plan.program->roles[load.role].name);
}

}  // namespace

std::vector<std::pair<int32_t, int64_t>> transfers_of(const Plan& plan, uint32_t r, uint32_t o) {
  const Op& op = plan.program->roles[r].ops[o];
  std::map<int32_t, int64_t> count;
  if (moves(op)) {
    const RoleCosts& costs = plan.roles[r];
    if (costs.class_of.empty()) return {{costs.transfer.at(0).at(o), units_of(plan, r, op)}};
    for (const uint32_t i : leaders(plan, r, op)) ++count[costs.transfer[class_of(costs, i)][o]];
  }
  return {count.begin(), count.end()};
}

std::string unlike(const Plan& plan) {
  if (!plan.disturbance.none()) return "durations are drawn per instance";
  for (uint32_t r = 0; r < plan.program->roles.size(); ++r) {
    const Role& role = plan.program->roles[r];
    const RoleCosts& costs = plan.roles.at(r);
    for (uint32_t o = 0; o < role.ops.size(); ++o) {
      bool same = true;
      if (moves(role.ops[o])) {
        const auto transfers = transfers_of(plan, r, o);
        const auto time = [&](int32_t t) {
          return t < 0 ? Time{} : plan.transfers.at(static_cast<std::size_t>(t)).alone(plan.capacity);
        };
        for (const auto& [t, units] : transfers) same = same && time(t) == time(transfers.front().first);
        // The folded row is priced as class 0 is.
        same =
            same && !transfers.empty() && time(costs.transfer.at(0).at(o)) == time(transfers.front().first);
      } else {
        for (const uint32_t c : costs.class_of)
          same = same && costs.duration.at(c).at(o) == costs.duration[0][o];
      }
      if (!same) return fmt::format("instances of {} differ in op {}", role.name, o);
    }
  }
  return "";
}

std::string contention(const Plan& plan) {
  std::vector<std::vector<Load>> loads(plan.capacity.size());
  for (uint32_t r = 0; r < plan.program->roles.size(); ++r) {
    for (int lane = 0; lane < kLanes; ++lane) add_loads(plan, r, lane, loads);
  }
  for (std::size_t l = 0; l < loads.size(); ++l) {
    double sum = 0;
    for (const Load& load : loads[l]) sum += load.sum;
    if (sum <= plan.capacity[l] * (1 + 1e-9)) continue;
    std::string who;
    for (const Load& load : loads[l]) who += (who.empty() ? "" : " and ") + describe(plan, load);
    return fmt::format("{} share {}", who,
                       l < plan.link_names.size() ? plan.link_names[l] : fmt::format("link {}", l));
  }
  return "";
}

Trace evaluate(const Plan& plan, const EvaluateOptions& options) {
  if (!is_static(*plan.program)) {
    Trace trace = run_events(plan, options);
    trace.reason = "the order in which messages arrive decides what happens";
    return trace;
  }
  const std::string shared = contention(plan);
  if (!shared.empty()) {
    Trace trace = run_events(plan, options);
    trace.reason = "transfers can slow each other: " + shared;
    return trace;
  }
  const std::string differs = unlike(plan);
  Trace trace = sweep(plan, options, differs.empty());
  trace.reason = "no transfers can slow each other, so times follow by max and plus";
  trace.reason += differs.empty() ? "; all instances of a role are alike and fold to one" : "; " + differs;
  return trace;
}

}  // namespace tandem

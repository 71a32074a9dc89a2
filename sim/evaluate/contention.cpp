// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "sim/bound/groups.h"

namespace tandem::sim {

namespace {

/// How much of one link a lane's transfers can take at once, all instances together, at the very most.
struct Load {
  double sum = 0;
  uint32_t role = 0;
  int lane = 0;
  uint32_t label = 0;  ///< of the op that takes the most
  double most = 0;
  int64_t parts = 0;  ///< instances that add to it
};

bool loads_nothing(const BoundProgram& plan, const RoleCosts& costs, uint32_t o) {
  return std::all_of(costs.transfer.begin(), costs.transfer.end(), [&](const std::vector<int32_t>& of) {
    return of[o] < 0 || plan.transfers.at(static_cast<std::size_t>(of[o])).uses.empty();
  });
}

/// Gives every transfer the index of the first one with the same rate and uses: ops that differ in their
/// bytes only load links equally.
std::vector<int32_t> same_transfers(const BoundProgram& plan) {
  std::vector<int32_t> first(plan.transfers.size());
  std::unordered_multimap<uint64_t, int32_t> known;
  for (std::size_t t = 0; t < first.size(); ++t) {
    const Transfer& transfer = plan.transfers[t];
    uint64_t hash = mix64(std::bit_cast<uint64_t>(transfer.rate_alone(plan.capacity)));
    for (const Use& u : transfer.uses)
      hash = mix64(hash ^ (uint64_t{u.link} << 32 | std::bit_cast<uint32_t>(u.weight)));
    first[t] = static_cast<int32_t>(t);
    const auto [begin, end] = known.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& entry) {
      const Transfer& other = plan.transfers[static_cast<std::size_t>(entry.second)];
      return other.rate_alone(plan.capacity) == transfer.rate_alone(plan.capacity) &&
             std::equal(other.uses.begin(), other.uses.end(), transfer.uses.begin(), transfer.uses.end(),
                        [](const Use& a, const Use& b) { return a.link == b.link && a.weight == b.weight; });
    });
    if (same != end) {
      first[t] = same->second;
    } else {
      known.emplace(hash, first[t]);
    }
  }
  return first;
}

/// The loads of every link by role and lane.
class Loads {
 public:
  explicit Loads(const BoundProgram& plan)
      : plan_(plan), same_(same_transfers(plan)), of_(plan.capacity.size()), peak_(plan.capacity.size()) {}

  /// An instance's lane makes one transfer at a time, so the instance adds the largest of its ops' rates, a
  /// member of a group its share of the group's. Sound: at any time the transfers of a lane run in disjoint
  /// sets of instances. Instances that take part in the very same transfers are one summand.
  void add(uint32_t r, int lane) {
    const Role& role = plan_.program->roles[r];
    std::map<uint32_t, Groups> groups;
    std::vector<uint32_t> ops;
    for (uint32_t o = 0; o < role.ops.size(); ++o) {
      const Op& op = role.ops[o];
      if (static_cast<int>(op.lane) != lane || !has_transfer(op)) continue;
      if (loads_nothing(plan_, plan_.roles[r], o)) continue;
      ops.push_back(o);
      if (op.kind != OpKind::collective) continue;
      const uint32_t axes = plan_.program->collectives[op.what].axes;
      if (groups.find(axes) == groups.end()) groups.emplace(axes, Groups(role.mesh, axes));
    }
    if (ops.empty()) return;
    std::map<std::vector<Part>, int64_t> cells;  // how many instances take part in these
    std::vector<Part> parts;
    for (uint32_t i = 0; i < role.mesh.size(); ++i) {
      parts.clear();
      for (const uint32_t o : ops) take_part(r, o, i, groups, parts);
      std::sort(parts.begin(), parts.end());
      parts.erase(std::unique(parts.begin(), parts.end(),
                              [](const Part& a, const Part& b) {
                                return a.transfer == b.transfer && a.members == b.members;
                              }),
                  parts.end());
      if (!parts.empty()) ++cells[parts];
    }
    for (const auto& [same, instances] : cells) add_cell(r, lane, same, instances);
  }

  const std::vector<Load>& of(std::size_t link) const { return of_[link]; }

 private:
  /// A transfer that an instance takes part in with that many others.
  struct Part {
    int32_t transfer = 0;
    uint32_t members = 1;
    uint32_t label = 0;  ///< of the first op that makes it
    auto operator<=>(const Part&) const = default;
  };
  struct Peak {
    double rate = 0;
    uint32_t label = 0;
  };

  void take_part(uint32_t r, uint32_t o, uint32_t i, const std::map<uint32_t, Groups>& groups,
                 std::vector<Part>& parts) const {
    const Op& op = plan_.program->roles[r].ops[o];
    const RoleCosts& costs = plan_.roles[r];
    Part part{0, 1, op.label};
    uint32_t leader = i;
    if (op.kind == OpKind::collective) {
      const Groups& g = groups.at(plan_.program->collectives[op.what].axes);
      leader = g.first(g.of(i));
      part.members = g.size();
    }
    const int32_t t = costs.transfer[costs.class_at(leader)][o];
    if (t < 0) return;
    part.transfer = same_.at(static_cast<std::size_t>(t));
    if (plan_.transfers[static_cast<std::size_t>(part.transfer)].uses.empty()) return;
    const bool known = std::any_of(parts.begin(), parts.end(), [&](const Part& p) {
      return p.transfer == part.transfer && p.members == part.members;
    });
    if (!known) parts.push_back(part);
  }

  void add_cell(uint32_t r, int lane, const std::vector<Part>& parts, int64_t instances) {
    for (const Part& part : parts) {
      const Transfer& transfer = plan_.transfers[static_cast<std::size_t>(part.transfer)];
      const double rate = transfer.rate_alone(plan_.capacity) / part.members;
      for (const Use& use : transfer.uses) {
        Peak& peak = peak_[use.link];
        const double load = rate * static_cast<double>(use.weight);
        if (load <= 0) continue;
        if (peak.rate == 0) touched_.push_back(use.link);
        if (load > peak.rate) peak = {load, part.label};
      }
    }
    for (const uint32_t link : touched_) {
      auto& list = of_[link];
      if (list.empty() || list.back().role != r || list.back().lane != lane)
        list.push_back({0, r, lane, 0, 0, 0});
      Load& load = list.back();
      const Peak& peak = peak_[link];
      load.sum += peak.rate * static_cast<double>(instances);
      load.parts += instances;
      if (peak.rate > load.most) {
        load.most = peak.rate;
        load.label = peak.label;
      }
      peak_[link] = {};
    }
    touched_.clear();
  }

  const BoundProgram& plan_;
  std::vector<int32_t> same_;          ///< [transfer]
  std::vector<std::vector<Load>> of_;  ///< [link]
  std::vector<Peak> peak_;             ///< [link], while a cell is added
  std::vector<uint32_t> touched_;      ///< links with a peak
};

std::string describe(const BoundProgram& plan, const Load& load) {
  const auto& labels = plan.program->labels;
  return fmt::format("{} ({} lane of {} instance{} of {})",
                     load.label < labels.size() ? labels[load.label] : "transfers",
                     name(static_cast<Lane>(load.lane)), load.parts, load.parts == 1 ? "" : "s",
                     plan.program->roles[load.role].name);
}

/// Nothing but copies moves on the lane.
bool only_copies(const BoundProgram& plan, const Load& load) {
  const auto lane = static_cast<Lane>(load.lane);
  return !plan.program->roles[load.role].ops.any(
      [&](const Op& op) { return op.lane == lane && op.kind != OpKind::copy; });
}

/// Takes an overfull link in. False: copies are not what is too much for it.
bool take_in(const BoundProgram& plan, uint32_t link, const std::vector<Load>& loads,
             std::vector<ContendingCopies>& copies) {
  const Load* by = nullptr;  // what asks most of it
  for (const Load& load : loads) by = by == nullptr || load.sum > by->sum ? &load : by;
  if (by == nullptr || loads.size() > 2 || !only_copies(plan, *by)) return false;
  double others = 0;
  for (const Load& load : loads) others += &load == by ? 0 : load.sum;
  if (!fit_together(plan, link, others)) return false;
  const auto lane = static_cast<Lane>(by->lane);
  auto at = std::find_if(copies.begin(), copies.end(),
                         [&](const ContendingCopies& c) { return c.role == by->role && c.lane == lane; });
  if (at == copies.end()) at = copies.insert(at, {by->role, lane, {}});
  at->links.push_back({link, others});
  return true;
}

}  // namespace

Contention find_contention(const BoundProgram& plan) {
  Contention out;
  if (std::all_of(plan.transfers.begin(), plan.transfers.end(),
                  [](const Transfer& t) { return t.uses.empty(); }))
    return out;
  Loads loads(plan);
  for (uint32_t r = 0; r < plan.program->roles.size(); ++r) {
    for (int lane = 0; lane < kLanes; ++lane) loads.add(r, lane);
  }
  bool copies = true;
  for (uint32_t l = 0; l < plan.capacity.size(); ++l) {
    double sum = 0;
    for (const Load& load : loads.of(l)) sum += load.sum;
    if (fit_together(plan, l, sum)) continue;
    copies = copies && take_in(plan, l, loads.of(l), out.copies);
    if (!out.who.empty()) continue;
    for (const Load& load : loads.of(l)) out.who += (out.who.empty() ? "" : " and ") + describe(plan, load);
    out.who += fmt::format(" share {}", plan.link_name(l));
  }
  if (!copies) out.copies.clear();
  return out;
}

}  // namespace tandem::sim

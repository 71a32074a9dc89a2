// SPDX-License-Identifier: Apache-2.0
#include "exec/run/communicators.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "exec/comm/ranks.h"
#include "exec/comm/scheduled_group.h"

namespace tandem::exec {

namespace {

/// The device of each worker, in all processes.
std::vector<std::string> units(const RunPlan& plan) {
  std::string own;
  for (uint32_t i = plan.first_here(); i < plan.first_here() + plan.here(); ++i)
    own += plan.execution().backend->unit(plan.device_index(i)) + '\n';
  std::string all = own;
  if (plan.across_processes()) {
    all.clear();
    for (const std::string& part : gather_over_ranks(own)) all += part;
  }
  std::vector<std::string> out;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  TANDEM_CHECK(out.size() == plan.workers());
  return out;
}

}  // namespace

Communicators::Communicators(const RunPlan& plan, Network& network, Abort& abort, int spins)
    : plan_(plan),
      abort_(abort),
      spins_(spins),
      over_links_(network.transport() != nullptr && !plan.across_processes()) {
  abort.watch(&captured_);
  const std::vector<Collective>& collectives = plan.program().collectives;
  groups_.resize(collectives.size());
  library_.resize(collectives.size());
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const Collective& c = collectives[i];
    if (c.root != 0) throw InputError("collectives with another root than the first are not executed");
    if (c.kind == CollKind::all_to_all) continue;  // only tokens
    const GroupMember m = plan.member(c, 0);
    const Groups members = plan.groups(c);
    library_[i] = library_groups(c, members, m.local);
    for (const std::vector<uint32_t>& workers : members)
      groups_[i].push_back(std::make_unique<GroupCollective>(c.kind, c.algorithm, m.ranks, m.local, abort,
                                                             spins, network.nodes_of(workers)));
  }
}

/// Named algorithms use the library's messages; but if the route is named too, those within one process use
/// our own copies over that route.
std::vector<std::unique_ptr<DeviceGroup>> Communicators::library_groups(const Collective& collective,
                                                                        const Groups& members,
                                                                        uint32_t local) const {
  const Backend& backend = *plan_.execution().backend;
  const PeerRoute route = plan_.execution().route;
  const bool several = plan_.across_processes(), named = collective.algorithm != "auto";
  // Traffic over emulated links leaves the devices.
  if (backend.group == nullptr || over_links_) return {};
  if (collective.kind == CollKind::shift) return {};  // which a copy is
  if (named && !several && route != PeerRoute::automatic) return {};
  const GroupShape shape{static_cast<uint32_t>(members[0].size()), std::max(1U, local), false};
  const Schedule schedule =
      named ? collective_schedule(collective.kind, collective.algorithm, shape, several) : Schedule{};
  const std::vector<std::string> all_units = units(plan_);
  const uint32_t here = plan_.here(), first = plan_.first_here();
  std::vector<std::unique_ptr<DeviceGroup>> out;
  bool all = true;
  for (const std::vector<uint32_t>& group : members) {
    GroupSetup setup{collective.kind, collective.algorithm, {}, route, ""};
    const uint32_t owner = group[0] / here;
    if (several) setup.id = gather_over_ranks(owner * here == first ? backend.group_id(route) : "")[owner];
    bool mine = false;
    for (const uint32_t i : group) {
      setup.units.push_back(all_units[i]);
      mine = mine || (i >= first && i < first + here);
    }
    const bool possible = !several || !setup.id.empty();
    out.push_back(mine && possible ? backend.group(setup) : nullptr);
    if (out.back() && named) out.back() = scheduled_group(std::move(out.back()), schedule);
    all = all && possible && (!mine || out.back() != nullptr);
  }
  if (several) {
    for (const std::string& answer : gather_over_ranks(all ? "yes" : "")) all = all && !answer.empty();
  }
  if (!all) out.clear();
  return out;
}

bool Communicators::has_library() const {
  return std::any_of(library_.begin(), library_.end(), [](const auto& groups_of) {
    return std::any_of(groups_of.begin(), groups_of.end(),
                       [](const auto& group) { return group != nullptr; });
  });
}

void Communicators::meet_captured(uint32_t nth) {
  if (plan_.here() < 2 || !has_library()) return;
  captured_.add();
  captured_.wait(plan_.here() * nth, abort_, spins_);
}

std::string Communicators::library_failure() const {
  for (const auto& groups_of : library_) {
    for (const auto& group : groups_of) {
      if (std::string why = group ? group->failure() : ""; !why.empty()) return why;
    }
  }
  return "";
}

void Communicators::stop_library() noexcept {
  for (const auto& groups_of : library_) {
    for (const auto& group : groups_of) {
      if (group) group->stop();
    }
  }
}

}  // namespace tandem::exec

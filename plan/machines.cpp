// SPDX-License-Identifier: Apache-2.0
#include "plan/machines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/in_parallel.h"
#include "plan/power.h"

namespace tandem::plan {

using answers::Search;
using answers::Space;
using answers::Until;
using answers::WayBounds;
using answers::Ways;

namespace {

/// A search compiles thousands of Programs, and asks for one again at once or never.
constexpr std::size_t kKeptTrainings = 8;

}  // namespace

struct MachineSearch::OfSystem {
  std::string system;
  std::optional<Question> first = {};  ///< what `bounds` are of
  std::unique_ptr<WayBounds> bounds = {};
  std::vector<Machine> machines = {};
};

MachineSearch::MachineSearch(const PlanQuestion& question) : q_(question) {}
MachineSearch::~MachineSearch() = default;

std::pair<std::string, int64_t> devices_of(const std::string& system) {
  const auto colon = system.rfind(':');
  const std::string count = colon == std::string::npos ? "" : system.substr(colon + 1);
  if (count.empty() || count.find_first_not_of("0123456789") != std::string::npos) return {system, 0};
  return {system.substr(0, colon),
          answers::parse_integer(count, 1, 1'000'000, answers::option_place("systems"))};
}

std::vector<Machine> MachineSearch::find() {
  for (std::string system : q_.systems) {
    const Question asked = question(system, 0);  // what is wrong with all numbers of nodes
    const auto [name, devices] = devices_of(system);
    if (devices == static_cast<int64_t>(asked.system.accelerators().size())) system = name;
    const bool known = std::any_of(systems_.begin(), systems_.end(),
                                   [&](const auto& other) { return other->system == system; });
    if (!known) systems_.push_back(std::make_unique<OfSystem>(OfSystem{system}));
  }
  const std::size_t all = systems_.size() * q_.nodes.size();
  base::in_parallel(systems_.size(), q_.threads, [&](std::size_t i) { find(*systems_[i], all); });
  std::vector<Machine> out;
  for (const auto& of : systems_) {
    std::move(of->machines.begin(), of->machines.end(), std::back_inserter(out));
    of->machines.clear();
  }
  return out;
}

void MachineSearch::find(OfSystem& of, std::size_t all) {
  // What many replicas do not hold, fewer do not either: the most nodes first.
  for (auto nodes = q_.nodes.rbegin(); nodes != q_.nodes.rend() && !stopped(); ++nodes) {
    Machine m;
    m.system = of.system;
    m.nodes = *nodes;
    try {
      m.question = std::make_shared<Question>(question(of.system, *nodes));
      m.question->programs = std::make_shared<schemes::Programs>(kKeptTrainings);
      if (q_.limits.racks) check_racks(*q_.limits.racks, m.question->system.name(), *nodes);
      if (!of.bounds) {
        of.first = *m.question;
        of.bounds = std::make_unique<WayBounds>(*of.first);
      }
      const Ways found = ways(m, of, Until::stage);
      m.ways = found.count;
      m.way = found.ranked.at(0);
      m.idle_watts = idle_power(m.question->system, m.nodes, m.way.candidate.devices).wall().low;
    } catch (const InputError& e) {
      m.why_not = e.what();
    }
    of.machines.push_back(std::move(m));
    tell(all);
  }
  std::reverse(of.machines.begin(), of.machines.end());
}

void MachineSearch::refine(std::vector<Machine>& all, const std::vector<std::size_t>& which) {
  for (const std::size_t i : which) {
    const auto of = std::find_if(systems_.begin(), systems_.end(),
                                 [&](const auto& system) { return system->system == all[i].system; });
    if (!all[i].refined && !stopped()) refine(all[i], **of);
  }
}

void MachineSearch::refine(Machine& m, OfSystem& of) const {
  m.refined = true;
  try {
    m.way = ways(m, of, Until::undisturbed).ranked.at(0);
    const Recompute& again = m.way.saver.recompute;
    const schemes::Offload& offload = m.way.saver.offload;
    *m.question = m.question->with({{"scheme", m.way.candidate.scheme},
                                    {"devices", std::to_string(m.way.candidate.devices)},
                                    {"batch", std::to_string(m.way.candidate.batch)},
                                    {"precision", std::string(name(m.way.candidate.precision))},
                                    {"recompute", again == Recompute{} ? "" : again.text()},
                                    {"offload", offload.any() ? offload.text() : ""}},
                                   q_.hooks);
  } catch (const InputError& e) {
    if (stopped())
      m.refined = false;
    else
      m.why_not = e.what();
  }
  m.question->timeline = false;
  m.question->programs = std::make_shared<schemes::Programs>();  // those of the search are done with
}

Ways MachineSearch::ways(const Machine& m, OfSystem& of, Until until) const {
  Space space;
  space.graph = &m.question->graph;
  space.system = &m.question->system;
  space.schemes = q_.schemes.empty() ? answers::exact_schemes() : q_.schemes;
  const int64_t most = m.question->system.accelerator_count(), asked = devices_of(m.system).second;
  space.devices = asked > 0 ? asked : most;
  if (space.devices > most)
    throw InputError(fmt::format("{} asks for {} devices of {}", m.system, space.devices, most));
  space.samples = q_.samples;
  space.precisions =
      q_.precision ? std::vector{*q_.precision} : answers::usual_precisions(m.question->system);
  space.all = true;
  Search search;
  search.top = 1;
  search.until = until;
  search.threads = until == Until::stage ? 1 : q_.threads;  // systems are bounded at once
  search.full_memory = until == Until::stage;               // a bound of those too that leave little room
  search.stop = q_.stop;
  return answers::find_ways(*m.question, space, search, *of.bounds);
}

Question MachineSearch::question(const std::string& asked, int64_t nodes) const {
  const auto [system, devices] = devices_of(asked);
  auto options = q_.training;
  options.emplace_back("system", system);
  if (devices > 0 && nodes > 1) throw InputError(fmt::format("{} is a part of one node", asked));
  Question one = Question::of(options, q_.hooks);
  if (nodes == 0 || one.system.nodes() == nodes) return one;
  options.emplace_back("set", fmt::format("nodes={}", nodes));
  return Question::of(options, q_.hooks);
}

void MachineSearch::tell(std::size_t all) {
  const std::scoped_lock lock(telling_);
  ++bounded_;
  if (q_.progress)
    q_.progress(fmt::format("bounded {} of {} machines ...", bounded_, all),
                static_cast<double>(bounded_) / static_cast<double>(std::max<std::size_t>(all, 1)));
}

}  // namespace tandem::plan

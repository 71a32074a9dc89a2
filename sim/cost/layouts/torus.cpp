// SPDX-License-Identifier: Apache-2.0
// Direct networks without switches (TPU pods): rings along every axis, both ways, at once.
#include <algorithm>
#include <set>

#include "sim/cost/layout.h"

namespace tandem::sim {
namespace {

/// A member has several ways out, each leading to other members.
bool is_torus(const System& system, const Group& group) {
  if (group.ranks() < 3) return false;
  std::set<uint32_t> first;
  const std::size_t samples = std::min<std::size_t>(64, group.ranks() - 1);
  for (std::size_t s = 0; s < samples; ++s) {
    const VertexId far = group.members[1 + s * (group.ranks() - 1) / samples];
    first.insert(resource_of(system, system.route(group.members.front(), far).links.front()));
  }
  return first.size() > 1;
}

bool can_torus(const LayoutInput& input) {
  const bool reduces = input.kind == CollKind::all_reduce || input.kind == CollKind::reduce_scatter;
  return (reduces || input.kind == CollKind::all_gather) && input.offers("torus") &&
         is_torus(input.system, input.group);
}

Pattern lay_torus(const LayoutInput& input) {
  const System& system = input.system;
  const Group& group = input.group;
  constexpr std::size_t kSamples = 4096;  // destinations looked at to find the axes and the diameter
  const auto n = static_cast<double>(group.ranks());
  const double phases = input.kind == CollKind::all_reduce ? 2 : 1;
  Pattern p;
  std::set<uint32_t> out, in;
  double hops = 0, farthest = 0;
  const std::size_t samples = std::min(kSamples, group.ranks() - 1);
  for (std::size_t s = 0; s < samples; ++s) {
    const VertexId home = group.members.front(), far = group.members[1 + s * (group.ranks() - 1) / samples];
    const Route there = system.route(home, far), back = system.route(far, home);
    out.insert(resource_of(system, there.links.front()));
    in.insert(resource_of(system, back.links.back()));
    hops = std::max(hops, static_cast<double>(there.links.size()));
    farthest = std::max(farthest, there.latency.seconds());
  }
  const auto worst = static_cast<std::size_t>(group.nodes() > 1 ? HopClass::network : HopClass::fabric);
  for (const auto& links : {out, in}) {
    for (const uint32_t l : links)
      p.load[worst][l] += phases * (n - 1) / n / static_cast<double>(links.size());
  }
  p.steps[worst] = phases * hops;
  p.wire[worst] = phases * farthest;
  return p;
}

}  // namespace

void register_torus(Registry<Layout>& registry) {
  registry.add({.name = "torus",
                .summary = "rings along every axis of a direct network at once",
                .can = can_torus,
                .lay = lay_torus});
}

}  // namespace tandem::sim

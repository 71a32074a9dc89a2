// SPDX-License-Identifier: Apache-2.0
// Exchanges of tokens as DeepEP and HybridEP lay them: a token goes once to each node that has one of its
// experts, to the member of the same place, and from there once to each member that has one. Results come
// back the same way, added up as they meet.
#include <charconv>
#include <cmath>

#include "sim/cost/layout.h"

namespace tandem::sim {
namespace {

/// A token's experts: `active` of `count`, all as likely.
struct Choice {
  double active = 8, count = 256;
};

/// "8/128"; those of DeepEP's own figures where nothing is said.
Choice read_choice(std::string_view text) {
  Choice out;
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return out;
  std::from_chars(text.data(), text.data() + slash, out.active);
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), out.count);
  return out;
}

/// How many of `parts` equal parts of the experts hold one of a token's, on average: parts x (1 - C(count -
/// count / parts, active) / C(count, active)).
double parts_hit(const Choice& c, double parts) {
  double missed = 1;
  for (double i = 0; i < c.active; ++i)
    missed *= std::max(0.0, c.count - c.count / parts - i) / (c.count - i);
  return parts * (1 - missed);
}

bool can_relay(const LayoutInput& input) { return input.kind == CollKind::all_to_all && input.group.uniform; }

Pattern lay_relay(const LayoutInput& input) {
  const System& system = input.system;
  const Group& group = input.group;
  const Choice choice = read_choice(input.parameters);
  const auto& home = group.by_node.front();
  const auto nodes = static_cast<double>(group.nodes()), local = static_cast<double>(home.size());
  Pattern p;
  const auto put = [&](VertexId from, VertexId to, double weight) {
    const Route r = system.route(from, to);
    const HopClass hop = hop_class(system, from, to, r);
    const auto c = static_cast<std::size_t>(hop);
    p.add(from, to, r, hop, weight, system);
    p.steps[c] = 1;
    p.wire[c] = std::max(p.wire[c], r.latency.seconds());
  };
  // The payload has a copy of each token for each of its experts. All nodes do as the first one.
  const double on = parts_hit(choice, nodes * local) / nodes / choice.active;  // passed on, own one included
  for (const VertexId a : home) {
    for (const VertexId b : home) {
      if (a != b) put(a, b, nodes * on / local);
    }
  }
  const std::size_t others = group.nodes() - 1, samples = std::min<std::size_t>(others, 16);
  const double sent = parts_hit(choice, nodes) * (nodes - 1) / nodes / choice.active;
  for (std::size_t s = 0; s < samples; ++s) {
    const auto& far = group.by_node[1 + s * others / samples];
    for (std::size_t i = 0; i < home.size(); ++i) {
      put(home[i], far[i], sent / static_cast<double>(samples));
      put(far[i], home[i], sent / static_cast<double>(samples));
    }
  }
  p.cap = {};
  return p;
}

/// Kernels of its own, of which the README says what they reach on H800 (of its legacy kernels): 153 GB/s of
/// NVLink's 160 in a node, and over 8 nodes 51 GB/s of tokens sent, the eighth that stays included, of a
/// NIC's 50.
std::vector<Protocol> relaying(const Library& library) {
  Protocol own = library.protocols.back();
  own.name = "simple";
  own.efficiency = {0.95, 0, 0, 0.97};
  return {own};
}

}  // namespace

void register_deepep(Registry<Layout>& registry) {
  registry.add({.name = "deepep",
                .summary = "tokens once to each node that has one of their experts, and on from there",
                .can = can_relay,
                .lay = lay_relay,
                .protocols = relaying});
}

}  // namespace tandem::sim

// SPDX-License-Identifier: Apache-2.0
// How much of a payload each link carries, whatever it takes.
#include "sim/cost/link_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "schemes/collectives/collectives.h"
#include "sim/cost/layout.h"
#include "sim/cost/libraries.h"
#include "sim/cost/link_cost.h"

namespace tandem::tests {
namespace {

std::vector<VertexId> first(const System& system, int64_t count) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(system.accelerator(i));
  return out;
}

/// Most bytes that a member sends to and receives from other nodes, per byte of payload.
std::pair<double, double> most(const Pattern& p) {
  std::pair<double, double> out;
  for (const auto& [v, ends] : p.ends)
    out = {std::max(out.first, ends.sent), std::max(out.second, ends.received)};
  return out;
}

TEST(Patterns, ExchangesOfManyNodesSendAllThatLeavesOne) {
  // Up to 128 ranks every pair is looked at, beyond some that stand for all.
  for (const int64_t nodes : {2, 16, 17, 40}) {
    const System s = System::load("dgx-h100", {{"nodes", std::to_string(nodes)}});
    const auto members = first(s, 8 * nodes);
    const Library library = library_of(s);
    const Group group = make_group(s, members);
    const Pattern p = lay_out({s, library, group, CollKind::all_to_all}, "direct").front().pattern;
    const auto n = static_cast<double>(8 * nodes);
    const auto [sent, received] = most(p);
    EXPECT_NEAR(sent, (n - 8) / n, 1e-9) << nodes;
    EXPECT_NEAR(received, (n - 8) / n, 1e-9) << nodes;
  }
}

/// Most bytes on a link of one class, per byte of payload.
double busiest(const Pattern& p, HopClass hop) {
  double out = 0;
  for (const auto& [link, weight] : p.load[static_cast<std::size_t>(hop)]) out = std::max(out, weight);
  return out;
}

// Of n nodes, n (1 - C(E - E/n, k) / C(E, k)) have one of a token's k experts of E, in the mean, and as many
// of the members; of one expert a token the relay sends what every pair for itself sends.
TEST(Patterns, RelayedTokensGoOnceToANode) {
  const auto laid = [](int64_t nodes, const char* algorithm) {
    const System s = System::load("dgx-h100", {{"nodes", std::to_string(nodes)}});
    const Library library = library_of(s);
    const auto members = first(s, 8 * nodes);
    const Group group = make_group(s, members);
    return lay_out({s, library, group, CollKind::all_to_all}, algorithm).front().pattern;
  };
  // Two nodes, two experts a token of 16: both elsewhere with probability 8/16 x 7/15.
  const double apart = 8.0 / 16 * 7 / 15;
  const Pattern two = laid(2, "deepep/2/16");
  EXPECT_NEAR(most(two).first, 2 * (1 - apart) / 2 / 2, 1e-9);
  EXPECT_NEAR(most(two).second, 2 * (1 - apart) / 2 / 2, 1e-9);
  const double hit = 16 * (1 - 15.0 / 16 * 14 / 15);
  EXPECT_NEAR(busiest(two, HopClass::fabric), hit / 2 * 7 / 8, 1e-9);
  for (const int64_t nodes : {2, 4, 40}) {
    const auto n = static_cast<double>(nodes);
    EXPECT_NEAR(most(laid(nodes, "deepep/1/640")).first, (n - 1) / n, 1e-9) << nodes;
  }
  // One of each member's experts: every token goes everywhere, once.
  EXPECT_NEAR(busiest(laid(1, "deepep/8/8"), HopClass::fabric), 7.0 / 8, 1e-9);
  // Many experts of one node: a single copy leaves for eight.
  EXPECT_LT(most(laid(2, "deepep/8/128")).first, 0.26 * most(laid(2, "direct")).first);
}

TEST(Patterns, SchedulesLoadTheWireWithWhatTheySend) {
  const System s = System::load("dgx-h100", {{"nodes", "4"}});
  const auto members = first(s, 32);
  const Group group = make_group(s, members);
  for (const char* name : {"ring", "halving-doubling", "hierarchical"}) {
    const CollectiveAlgorithm& a = *schemes::collectives_registry().find(name);
    const Pattern p = schedule_pattern(s, group, CollKind::all_reduce, a);
    const Schedule full = a.schedule(CollKind::all_reduce, {32, 8});
    std::vector<double> leaves(32, 0);
    for (const schemes::Step& step : full.steps) {
      for (const schemes::Move& m : step.moves) {
        if (m.from / 8 != m.to / 8) leaves[m.from] += static_cast<double>(m.count) / full.chunks;
      }
    }
    EXPECT_NEAR(most(p).first, *std::max_element(leaves.begin(), leaves.end()), 1e-9) << name;
    // The wire, not only the ends: the busiest link of the network carries what its busiest rank sends.
    double busiest = 0;
    for (const auto& [link, weight] : p.load[static_cast<std::size_t>(HopClass::network)])
      busiest = std::max(busiest, weight);
    EXPECT_GE(busiest, most(p).first - 1e-9) << name;
  }
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// The tree inside a node: a ring without its worst hop.
#include <gtest/gtest.h>

#include <vector>

#include "sim/cost/libraries.h"
#include "sim/cost/link_cost.h"
#include "sim/cost/link_profile.h"
#include "sim/cost/nccl_tuning.h"

namespace tandem::tests {
namespace {

std::vector<VertexId> all_of(const System& system) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < system.accelerator_count(); ++i) out.push_back(system.accelerator(i));
  return out;
}

/// Two cards without a bridge on one switch are the ends of the chain: their uplink carries the payload twice
/// each way, where the ring's four crossings each carry 2 (n - 1) / n of it.
TEST(Chain, SparesTheCardsWithoutABridge) {
  const System bridged = System::load("2080ti-nvlink-8x"), plain = System::load("2080ti-pcie-8x");
  constexpr int64_t kBytes = 512 << 20;
  LinkCost links(bridged, Overheads{});
  LinkCost::Choice choice;
  const Transfer t = links.collective(CollKind::all_reduce, "auto", {kBytes}, all_of(bridged), &choice);
  EXPECT_EQ(choice.algorithm, "chain");
  const LinkId uplink = bridged.route(bridged.accelerator(0), bridged.accelerator(2)).links[1];
  const double host =
      library_of(bridged).protocols.back().efficiency[static_cast<std::size_t>(HopClass::host)];
  const double tree = nccl_tuning().tree.efficiency(kBytes);
  EXPECT_NEAR(t.alone(links.capacity()).seconds(), 2.0 * kBytes / bridged.usable(uplink) / host / tree,
              0.01 * t.alone(links.capacity()).seconds());
  links.collective(CollKind::all_reduce, "auto", {1 << 20}, all_of(bridged), &choice);
  EXPECT_EQ(choice.algorithm, "ring");
  LinkCost without(plain, Overheads{});
  without.collective(CollKind::all_reduce, "auto", {kBytes}, all_of(plain), &choice);
  EXPECT_EQ(choice.algorithm, "ring");
}

TEST(Chain, IsOfLibrariesThatSearchTreesInsideANode) {
  const System old = System::load("2080ti-nvlink-8x", {{"communication.library", "nccl-2.4"}});
  LinkCost links(old, Overheads{});
  LinkCost::Choice choice;
  links.collective(CollKind::all_reduce, "auto", {512 << 20}, all_of(old), &choice);
  EXPECT_EQ(choice.algorithm, "ring");
}

}  // namespace
}  // namespace tandem::tests

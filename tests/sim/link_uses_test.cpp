// SPDX-License-Identifier: Apache-2.0
#include "sim/link_uses.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"

namespace tandem::tests {
namespace {

TEST(LinkUses, GroupsWhatStandsAtOnePlace) {
  EXPECT_EQ(link_group("node12/gpu0>plx3"), "node*/gpu0>plx3");
  EXPECT_EQ(link_group("node3/port7>leaf12"), "node*/port7>leaf*");
  EXPECT_EQ(link_group("leaf12>node3/port7"), "leaf*>node*/port7");
  EXPECT_EQ(link_group("leaf1>spine1-14"), "leaf*>spine*-*");
  EXPECT_EQ(link_group("node3>node4"), "node*>node*");
  EXPECT_EQ(link_group("node0 decoding cores"), "node* decoding cores");
  const std::vector<KindOfNode> kinds = {{"", 0, 8}, {"p100", 8, 8}};
  EXPECT_EQ(link_group("node12/gpu0>plx3", kinds), "node8*/gpu0>plx3");
  EXPECT_EQ(link_group("node7/port7>leaf12", kinds), "node0*/port7>leaf*");
  EXPECT_EQ(link_group("leaf1>spine1-14", kinds), "leaf*>spine*-*");
  EXPECT_EQ(link_group("node9 decoding cores", kinds), "node8* decoding cores");
}

TEST(LinkUses, CountsEveryLinkAndByte) {
  BoundProgram plan;
  Trace trace;
  trace.makespan = Time{1'000'000'000'000};
  for (int node = 0; node < 300; ++node) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      plan.capacity.push_back(1000);
      trace.link_bytes.push_back(gpu == 0 ? 100 : node);
    }
  }
  plan.name_link = [](uint32_t l) {
    return "node" + std::to_string(l / 2) + "/gpu" + std::to_string(l % 2) + ">cpu0";
  };
  Report report;
  add_links(report, plan, trace, 300);
  EXPECT_EQ(report.network.links.size(), 400u);
  ASSERT_EQ(report.network.groups.size(), 2u);
  const LinkGroup &busiest = report.network.groups[0], &other = report.network.groups[1];
  EXPECT_EQ(busiest.name, "node*/gpu1>cpu0");
  EXPECT_EQ(busiest.links, 299) << "node0's carried nothing";
  EXPECT_DOUBLE_EQ(busiest.busy_max, 0.299);
  EXPECT_NEAR(busiest.busy_mean, 0.150, 1e-9);
  EXPECT_EQ(busiest.bytes.n, 299 * 300 / 2);
  EXPECT_EQ(other.links, 300);
  EXPECT_NEAR(other.busy_mean, 0.1, 1e-9);
  EXPECT_EQ(other.bytes.n, 300 * 100);
  // On one node no numbers of nodes are to be told apart: every link by itself.
  Report alone;
  add_links(alone, plan, trace, 1);
  EXPECT_EQ(alone.network.groups.size(), 599u);
  EXPECT_EQ(alone.network.groups[0].name, "node299/gpu1>cpu0");
  Report whole;
  trace.link_bytes.resize(400);
  add_links(whole, plan, trace, 200);
  EXPECT_TRUE(whole.network.groups.empty()) << "all links are listed";
}

TEST(LinkUses, AreBusyByTheirCapacityAndNeverMoreThanAlways) {
  BoundProgram plan;
  plan.capacity = {1000, 10, 100};
  Trace trace;
  trace.makespan = Time{2'000'000'000'000};
  trace.link_bytes = {500, 0, 201};
  Report report;
  add_links(report, plan, trace, 1);
  ASSERT_EQ(report.network.links.size(), 2u);
  EXPECT_EQ(report.network.links[0].name, "link 2");
  EXPECT_EQ(report.network.links[0].busy, 1);
  EXPECT_DOUBLE_EQ(report.network.links[1].busy, 0.25);
  EXPECT_EQ(report.network.links[1].bytes.n, 500);
}

}  // namespace
}  // namespace tandem::tests

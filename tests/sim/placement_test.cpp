// SPDX-License-Identifier: Apache-2.0
#include "sim/bound/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "sim/bound/groups.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Three nodes of eight.
System nodes() { return System::load("ethernet-cluster", {{"nodes", "3"}}); }

std::string refusal(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Placement, FillsNodesInOrderAndMakesAGridOfEqualOnes) {
  const System s = nodes();
  const Cluster one = make_cluster(s, 8), even = make_cluster(s, 24), uneven = make_cluster(s, 12),
                odd = make_cluster(s, 9);
  EXPECT_EQ(one.nodes, 1);
  EXPECT_EQ(one.per_node, 8);
  EXPECT_EQ(even.nodes, 3);
  EXPECT_EQ(even.per_node, 8);
  EXPECT_EQ(uneven.nodes, 2);
  EXPECT_EQ(uneven.per_node, 6) << "half of twelve on each";
  EXPECT_EQ(odd.nodes, 2);
  EXPECT_EQ(odd.per_node, 0);
  EXPECT_EQ(used_accelerator(s, uneven, 5), s.accelerator(5));
  EXPECT_EQ(used_accelerator(s, uneven, 7), s.accelerator(8 + 1));
  EXPECT_EQ(used_accelerator(s, odd, 7), s.accelerator(7));
  EXPECT_THAT(refusal([&] { make_cluster(s, 25); }),
              HasSubstr("24 devices (3 nodes of 8), not 25; a larger one: "
                        "--set nodes=4"));
  EXPECT_THAT(refusal([&] { make_cluster(s, 32); }), HasSubstr("--set nodes=4"));
  EXPECT_EQ(grown_cluster(s, 1000).nodes, 125);
}

TEST(Placement, AJobBesideTakesTheNextFreeDevices) {
  const System s = nodes();
  const Cluster first = make_cluster(s, 6);
  const Cluster second = make_cluster_behind(s, first, 2);
  EXPECT_EQ(second.first, 6);
  EXPECT_EQ(second.nodes, 1);
  EXPECT_EQ(second.per_node, 2);
  const Cluster third = make_cluster_behind(s, second, 4);
  EXPECT_EQ(third.first, 8);
  EXPECT_EQ(third.nodes, 1);
  EXPECT_EQ(used_accelerator(s, third, 3), s.accelerator(11));
  const Cluster across = make_cluster_behind(s, first, 4);
  EXPECT_EQ(across.nodes, 2);
  EXPECT_EQ(across.per_node, 0) << "two on each, but no node of its own";
  EXPECT_EQ(used_accelerator(s, across, 3), s.accelerator(9));
  const Cluster whole = make_cluster_behind(s, make_cluster(s, 8), 12);
  EXPECT_EQ(whole.first, 8);
  EXPECT_EQ(whole.nodes, 2);
  EXPECT_EQ(whole.per_node, 6);
  EXPECT_EQ(make_cluster_behind(s, make_cluster(s, 12), 2).first, 8 + 6) << "behind six on the second node";
  EXPECT_EQ(make_cluster_behind(s, make_cluster(s, 9), 2).first, 9);
  EXPECT_EQ(make_cluster_behind(s, make_cluster(s, 16), 8).devices, 8) << "all that are left";
  EXPECT_THAT(refusal([&] { make_cluster_behind(s, make_cluster(s, 16), 9); }),
              HasSubstr("24 devices: 8 are left by the previous job, not 9; a larger one: --set nodes=4"));
}

TEST(Placement, ServersStandOnTheWorkersNodesOrBehindThem) {
  const System s = nodes();
  Program p;
  p.roles.push_back({"worker", {{{"data", 12}}}, Site::accelerators, -1, {}});
  p.roles.push_back({"beside", {{{"shard", 3}}}, Site::hosts, -1, {}});
  p.roles.push_back({"apart", {{{"shard", 1}}}, Site::extra_nodes, -1, {}});
  const auto at = place(p, s, make_cluster(s, 12));
  EXPECT_EQ(at[0][6], s.accelerator(8));
  EXPECT_THAT(at[1], ElementsAre(s.host_of(s.accelerator(0)), s.host_of(s.accelerator(8)),
                                 s.host_of(s.accelerator(0))));
  EXPECT_THAT(at[2], ElementsAre(s.host_of(s.accelerator(16))));
  p.roles[2].mesh.axes[0].size = 2;
  EXPECT_THAT(refusal([&] { place(p, s, make_cluster(s, 12)); }),
              HasSubstr("2 servers on separate nodes need 4 nodes; ethernet-cluster has 3: --set nodes=4"));
  const Cluster behind = make_cluster_behind(s, make_cluster(s, 8), 8);
  p.roles[0].mesh.axes[0].size = 8;
  p.roles[2].mesh.axes[0].size = 1;
  const auto beside = place(p, s, behind);
  EXPECT_EQ(beside[0][7], s.accelerator(15));
  EXPECT_EQ(beside[1][2], s.host_of(s.accelerator(8)));
  EXPECT_EQ(beside[2][0], s.host_of(s.accelerator(16)));
}

/// Members of a group agree in the coordinates of all other axes; both ways of asking say so.
TEST(Placement, GroupsAreWhatDiffersInTheirAxesAlone) {
  const Mesh mesh{{{"a", 2}, {"b", 3}, {"c", 4}}};
  const auto coordinates = [](uint32_t i) { return std::array<uint32_t, 3>{i / 12, i / 4 % 3, i % 4}; };
  for (uint32_t axes = 0; axes < 8; ++axes) {
    const Groups groups(mesh, axes);
    for (uint32_t i = 0; i < 24; ++i) {
      std::vector<uint32_t> expected;
      for (uint32_t j = 0; j < 24; ++j) {
        bool same = true;
        for (uint32_t a = 0; a < 3; ++a)
          same = same && ((axes >> a & 1U) != 0 || coordinates(i)[a] == coordinates(j)[a]);
        if (same) expected.push_back(j);
        EXPECT_EQ(groups.of(i) == groups.of(j), same) << axes << " " << i << " " << j;
      }
      EXPECT_EQ(group_of(mesh, axes, i), expected) << axes << " " << i;
      EXPECT_EQ(first_of_group(mesh, axes, i), expected.front()) << axes << " " << i;
      EXPECT_EQ(groups.first(groups.of(i)), expected.front());
      EXPECT_EQ(groups.size(), expected.size());
    }
    EXPECT_EQ(groups.count() * groups.size(), 24u);
  }
}

}  // namespace
}  // namespace tandem::tests

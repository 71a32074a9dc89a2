// SPDX-License-Identifier: Apache-2.0
// Collectives and messages over leaves whose uplinks are fewer than their ports, or broken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/cost/link_cost.h"
#include "sim/network/flows.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using Sets = System::Sets;

/// Nodes of eight A100 on rails, four to a leaf.
System nodes_of_a100(int64_t nodes, const Sets& more = {}, const std::string& library = "nccl-2.9") {
  Sets sets = {
      {"nodes", std::to_string(nodes)}, {"network.nodes_per_leaf", "4"}, {"communication.library", library}};
  sets.insert(sets.end(), more.begin(), more.end());
  return System::load("dgx-a100", sets);
}

const Sets kFourToOne = {{"network.oversubscription", "4"}};
constexpr Bytes kLarge{int64_t{1} << 30};

std::vector<VertexId> all_of(const System& s) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < s.accelerator_count(); ++i) out.push_back(s.accelerator(i));
  return out;
}

/// Seconds of a collective, latency included.
double seconds(const System& s, CollKind kind, const std::string& algorithm = "auto", Bytes bytes = kLarge) {
  LinkCost links(s, Overheads{});
  return links.collective(kind, algorithm, bytes, all_of(s), nullptr).alone(links.capacity()).seconds();
}

/// Seconds in which the trunks of a leaf carry what its members send to all others: of an all-to-all of
/// `bytes` each.
/// `crossing`: what goes from one rail to another below one leaf crosses them as well.
double trunk_seconds(const System& s, double bytes, bool crossing) {
  const double n = static_cast<double>(s.accelerator_count()), below = 32;
  double rate = 0;
  for (LinkId l = 0; l < s.link_count(); ++l) {
    const std::string name = s.link(l).name;
    for (int rail = 0; rail < 8; ++rail) {
      if (name.rfind("leaf" + std::to_string(rail) + ">", 0) == 0 && name.find("spine") != std::string::npos)
        rate += s.usable(l);
    }
  }
  const double within = crossing ? (below - 8) * 7 / 8 : 0;
  return below * bytes * (n - below + within) / n / rate;
}

TEST(Uplinks, BoundAllToAllByTheTrunksAndLeaveRingsAlone) {
  for (const int64_t nodes : {16, 32}) {  // all pairs, and some that stand for all
    for (const std::string library : {"nccl-2.9", "nccl-2.18"}) {
      const System even = nodes_of_a100(nodes, {}, library), thin = nodes_of_a100(nodes, kFourToOne, library);
      const double expected = trunk_seconds(thin, static_cast<double>(kLarge.n), library == "nccl-2.9");
      EXPECT_NEAR(seconds(thin, CollKind::all_to_all) / expected, 1.03, 0.03) << nodes << " " << library;
      EXPECT_GT(seconds(thin, CollKind::all_to_all), 3 * seconds(even, CollKind::all_to_all));
      EXPECT_NEAR(seconds(thin, CollKind::all_gather), seconds(even, CollKind::all_gather),
                  0.01 * seconds(even, CollKind::all_gather));
      EXPECT_NEAR(seconds(thin, CollKind::all_reduce, "ring"), seconds(even, CollKind::all_reduce, "ring"),
                  0.01 * seconds(even, CollKind::all_reduce, "ring"));
    }
  }
}

TEST(Uplinks, OfRailsCarryNothingOfOneLeafSinceNeighboursPassMessagesOn) {
  const System thin = nodes_of_a100(4, kFourToOne, "nccl-2.18"), even = nodes_of_a100(4, {}, "nccl-2.18");
  EXPECT_DOUBLE_EQ(seconds(thin, CollKind::all_to_all), seconds(even, CollKind::all_to_all));
  // Before 2.12 messages to another rail cross the spine.
  EXPECT_GT(seconds(nodes_of_a100(4, kFourToOne), CollKind::all_to_all),
            1.5 * seconds(nodes_of_a100(4), CollKind::all_to_all));
}

/// The same all-to-all as messages of their own, which share the links as the event engine has it.
TEST(Uplinks, CarryMessagesAsFastAsACollectiveOfThem) {
  for (const Sets& more :
       {Sets{}, kFourToOne, Sets{{"network.oversubscription", "4"}, {"network.rails", "false"}},
        Sets{{"faults.leaf0:spine1-0", "0.25"}, {"network.rails", "false"}}}) {
    const System s = nodes_of_a100(8, more);
    const auto members = all_of(s);
    const double part = static_cast<double>(kLarge.n) / static_cast<double>(members.size());
    LinkCost links(s, Overheads{});
    Flows flows(links.capacity());
    std::vector<Transfer> transfers;
    for (const VertexId a : members) {
      for (const VertexId b : members) {
        if (s.node_of(a) != s.node_of(b))
          transfers.push_back(links.message(a, b, {static_cast<int64_t>(part)}));
      }
    }
    for (std::size_t i = 0; i < transfers.size(); ++i)
      flows.start(0, transfers[i].uses, 0, transfers[i].bytes, i);
    flows.update(0);
    int64_t now = 0;
    std::vector<uint64_t> done;
    for (std::size_t ended = 0; ended < transfers.size(); ended += done.size()) {
      done.clear();
      now = flows.next();
      flows.finish(now, done);
      flows.update(now);
    }
    EXPECT_NEAR(seconds(s, CollKind::all_to_all) / Time{now}.seconds(), 1.02, 0.02);
  }
}

TEST(Uplinks, ThatFailSlowDownWhoeverNeedsThem) {
  const System whole = nodes_of_a100(8), hurt = nodes_of_a100(8, {{"faults.leaf0:spine1-0", "0.25"}});
  const double before = seconds(whole, CollKind::all_to_all), after = seconds(hurt, CollKind::all_to_all);
  EXPECT_GT(after, 2 * before) << "half of the messages of rail 0 leave by a quarter of its uplinks";
  EXPECT_LT(after, 4 * before);
  EXPECT_NEAR(seconds(hurt, CollKind::all_gather), seconds(whole, CollKind::all_gather), 1e-3);
}

TEST(Uplinks, LimitWhatAnyAlgorithmCanDo) {
  const System thin = nodes_of_a100(32, kFourToOne);
  LinkCost links(thin, Overheads{});
  EXPECT_NEAR(links.least_seconds(CollKind::all_to_all, kLarge, all_of(thin)),
              trunk_seconds(thin, static_cast<double>(kLarge.n), false), 1e-6);
  EXPECT_LE(links.least_seconds(CollKind::all_reduce, kLarge, all_of(thin)),
            seconds(thin, CollKind::all_reduce));
}

TEST(Uplinks, OfHashedFlowsAreSlowerWithFewerFlows) {
  const double even = seconds(nodes_of_a100(16), CollKind::all_to_all);
  const double many = seconds(nodes_of_a100(16, {{"network.ecmp", "16"}}), CollKind::all_to_all);
  const double one = seconds(nodes_of_a100(16, {{"network.ecmp", "1"}}), CollKind::all_to_all);
  EXPECT_LT(even, 1.001 * many);
  EXPECT_GT(one, 1.4 * many);
}

TEST(Racks, TakeLongerThanOneByWhatTheirHeadsExchange) {
  const auto racks = [](int64_t n) {
    return System::load("gb200-nvl72",
                        {{"nodes", std::to_string(n)}, {"communication.library", "nccl-2.27"}});
  };
  const double one = seconds(racks(1), CollKind::all_reduce, "nvls"),
               two = seconds(racks(2), CollKind::all_reduce, "nvls"),
               many = seconds(racks(20), CollKind::all_reduce, "nvls");
  EXPECT_GT(two, 1.03 * one);
  EXPECT_GT(many, two);
  EXPECT_LT(many, 1.15 * one);
}

}  // namespace
}  // namespace tandem::tests

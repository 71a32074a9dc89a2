// SPDX-License-Identifier: Apache-2.0
#include "topologies/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "topologies/system.h"

namespace tandem::tests {
namespace {

using Sets = System::Sets;
using ::testing::HasSubstr;

std::vector<std::string> names(const System& s, const Route& r) {
  std::vector<std::string> out;
  for (const LinkId l : r.links) out.push_back(s.link(l).name);
  return out;
}

Route between(const System& s, int64_t a, int64_t b) { return s.route(s.accelerator(a), s.accelerator(b)); }

std::string refusal(const std::string& system, const Sets& sets) {
  try {
    System::load(system, sets);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

LinkId link_named(const System& s, const std::string& name) {
  for (LinkId l = 0; l < s.link_count(); ++l) {
    if (s.link(l).name == name) return l;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(Faults, LeaveAFractionOfACableBothWaysAndNothingElse) {
  const System whole = System::load("v100-pcie-8x"),
               hurt = System::load("v100-pcie-8x", {{"faults.cpu0:cpu1", "0.25"}});
  for (LinkId l = 0; l < whole.link_count(); ++l) {
    const std::string name = whole.link(l).name;
    const double left = name == "cpu0>cpu1" || name == "cpu1>cpu0" ? 0.25 : 1;
    EXPECT_DOUBLE_EQ(hurt.usable(l), left * whole.usable(l)) << name;
    EXPECT_DOUBLE_EQ(hurt.link(l).usable(), hurt.usable(l)) << name;
  }
  EXPECT_EQ(hurt.faults(), std::vector<std::string>{"cpu0:cpu1 at 25 %"});
  EXPECT_TRUE(hurt.uniform());
}

TEST(Faults, RoutesKeepOffACableThatIsDown) {
  const System whole = System::load("dgx1-v100"),
               hurt = System::load("dgx1-v100", {{"faults.gpu0:gpu1", "down"}});
  EXPECT_EQ(names(whole, between(whole, 0, 1)), std::vector<std::string>{"gpu0>gpu1"});
  EXPECT_EQ(names(hurt, between(hurt, 0, 1)), (std::vector<std::string>{"gpu0>plx0", "plx0>gpu1"}));
  EXPECT_EQ(names(hurt, between(hurt, 0, 2)), std::vector<std::string>{"gpu0>gpu2"});
}

TEST(Faults, StrikeOneNodeWhenItIsNamedAndElseAll) {
  const Sets two = {{"nodes", "2"}};
  Sets one = two, all = two;
  one.emplace_back("faults.node1/gpu0:gpu1", "down");
  all.emplace_back("faults.gpu0:gpu1", "down");
  const System single = System::load("dgx1-v100", one), every = System::load("dgx1-v100", all);
  EXPECT_EQ(between(single, 0, 1).links.size(), 1u);
  EXPECT_EQ(between(single, 8, 9).links.size(), 2u);
  EXPECT_FALSE(single.uniform());
  EXPECT_EQ(between(every, 0, 1).links.size(), 2u);
  EXPECT_TRUE(every.uniform());
}

TEST(Faults, ANicThatIsDownIsLeftToItsNeighbour) {
  const System s = System::load("dgx1-v100", {{"nodes", "2"}, {"faults.node0/nic0", "down"}});
  for (int64_t gpu = 0; gpu < 8; ++gpu) {
    for (const std::string& name : names(s, between(s, gpu, 8 + gpu))) {
      EXPECT_EQ(name.find("node0/nic0"), std::string::npos) << name;
      EXPECT_EQ(name.find("node0/port0"), std::string::npos) << name;
    }
  }
  EXPECT_THAT(refusal("ethernet-cluster", {{"nodes", "2"}, {"faults.node1/nic0", "down"}}),
              HasSubstr("network"));
}

TEST(Faults, ATorusGoesRoundALinkThatIsDownByTheFewestHops) {
  const System whole = System::load("tpu-v2-pod", {{"nodes", "16"}});
  const System hurt = System::load("tpu-v2-pod", {{"nodes", "16"}, {"faults.node0:node1", "down"}});
  const auto hops = [](const System& s, int64_t a, int64_t b) {
    return s.route(s.accelerator(a), s.accelerator(b)).links.size();
  };
  const auto per_node = static_cast<int64_t>(whole.accelerators().size());
  EXPECT_EQ(hops(hurt, 0, per_node), hops(whole, 0, per_node) + 2);
  EXPECT_EQ(hops(hurt, 0, 2 * per_node), hops(whole, 0, 2 * per_node))
      << "two hops away both ways round are whole";
  std::set<std::string> crossed;
  for (int64_t a = 0; a < 16; ++a) {
    for (int64_t b = 0; b < 16; ++b) {
      for (const std::string& name : names(hurt, between(hurt, a * per_node, b * per_node)))
        crossed.insert(name);
    }
  }
  EXPECT_EQ(crossed.count("node0>node1") + crossed.count("node1>node0"), 0u);
}

TEST(Faults, ATreeFallsApartWhereItsOnlyTrunkIsDown) {
  const Sets sets = {{"nodes", "64"}, {"faults.leaf0:spine1-0", "down"}};
  const System s = System::load("dgx-h100", sets);
  try {
    between(s, 0, 8 * 63);
    FAIL() << "there is one trunk only";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("leave no way through the network from node0/port0"));
  }
  const System thin = System::load("dgx-h100", {{"nodes", "64"}, {"faults.leaf0:spine1-0", "0.5"}});
  const System whole = System::load("dgx-h100", {{"nodes", "64"}});
  const LinkId up = link_named(whole, "leaf0>spine1-0");
  EXPECT_DOUBLE_EQ(thin.usable(up), whole.usable(up) / 2);
}

TEST(Faults, SlowDevicesAreKnownByTheirSpeed) {
  const System s =
      System::load("dgx1-v100", {{"nodes", "2"}, {"faults.node1/gpu3", "0.5"}, {"faults.gpu0", "0.8"}});
  EXPECT_DOUBLE_EQ(s.speed(s.accelerator(0)), 0.8);
  EXPECT_DOUBLE_EQ(s.speed(s.accelerator(8)), 0.8);
  EXPECT_DOUBLE_EQ(s.speed(s.accelerator(3)), 1);
  EXPECT_DOUBLE_EQ(s.speed(s.accelerator(11)), 0.5);
}

TEST(Faults, WrongOnesAreRefusedWithWhatIsRight) {
  const auto of = [](const std::string& key, const std::string& value) {
    return refusal("v100-pcie-8x", {{"faults." + key, value}});
  };
  EXPECT_THAT(of("cpu0:cpx1", "0.5"), HasSubstr("nothing called \"cpu0:cpx1\""));
  EXPECT_THAT(of("gpu9", "0.5"), HasSubstr("Did you mean gpu"));
  EXPECT_THAT(of("gpu0", "down"), HasSubstr("cannot train"));
  EXPECT_THAT(of("cpu0:cpu1", "down"), HasSubstr("leave no way from \"cpu0\" to \"gpu4\""));
  EXPECT_THAT(of("cpu0>cpu1", "0.5"), HasSubstr("as in cpu0:cpu1"));
  EXPECT_THAT(of("gpu0", "1.5"), HasSubstr("outside"));
  EXPECT_THAT(of("gpu0", "broken"), HasSubstr("\"down\""));
  EXPECT_THAT(of("node7/gpu0", "0.5"), HasSubstr("there is no node 7"));
  EXPECT_THAT(refusal("v100-pcie-8x", {{"fault.gpu0", "0.5"}}), HasSubstr("fault"));
}

}  // namespace
}  // namespace tandem::tests

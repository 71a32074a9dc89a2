// SPDX-License-Identifier: Apache-2.0
// Properties of every network block at many sizes.
#include "topologies/blocks/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace tandem::tests {
namespace {

std::unique_ptr<Network> make(const std::string& block, int64_t nodes, uint32_t ports,
                              const std::string& spec) {
  const NetworkShape shape{nodes, ports, {12.5e9}, 0.9, {1'000'000}};
  return blocks_registry().at(block).make(shape, Json::parse(spec, "network.json"));
}

struct Case {
  std::string block, spec;
  uint32_t ports;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.block << " " << c.spec << " ports " << c.ports; }

class Blocks : public testing::TestWithParam<Case> {
 protected:
  bool switched() const { return GetParam().block != "torus" && GetParam().block != "ring"; }
  std::string end(Port p) const {
    return "node" + std::to_string(p.node) + (switched() ? "/port" + std::to_string(p.index) : "");
  }
};

/// The labels of a route must join up: the strongest check that ids, labels and routes mean the same thing.
TEST_P(Blocks, RoutesAreChainsFromPortToPort) {
  for (const int64_t nodes : {1, 2, 3, 4, 6, 7, 9, 16, 30, 33}) {
    const auto network = make(GetParam().block, nodes, GetParam().ports, GetParam().spec);
    for (int64_t a = 0; a < nodes; ++a) {
      for (int64_t b = 0; b < nodes; ++b) {
        if (a == b) continue;
        const Port from{a, static_cast<uint32_t>(a) % GetParam().ports},
            to{b, static_cast<uint32_t>(b) % GetParam().ports};
        std::vector<uint64_t> there, back;
        network->route(from, to, there);
        network->route(to, from, back);
        ASSERT_FALSE(there.empty());
        ASSERT_EQ(there.size(), back.size()) << nodes << ": " << a << " " << b;
        std::string at = end(from);
        for (const uint64_t link : there) {
          ASSERT_LT(link, network->link_count());
          const std::string label = network->label(link);
          const auto arrow = label.find('>');
          ASSERT_EQ(label.substr(0, arrow), at) << nodes << ": " << a << " to " << b << " by " << label;
          at = label.substr(arrow + 1);
        }
        ASSERT_EQ(at, end(to));
        ASSERT_EQ(std::set<uint64_t>(there.begin(), there.end()).size(), there.size()) << "a link twice";
      }
    }
  }
}

TEST_P(Blocks, AppendsToWhatIsThere) {
  const auto network = make(GetParam().block, 8, GetParam().ports, GetParam().spec);
  std::vector<uint64_t> links = {42};
  network->route({0, 0}, {5, 0}, links);
  EXPECT_EQ(links.front(), 42u);
  EXPECT_GT(links.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    All, Blocks,
    testing::Values(Case{"single", "{}", 1}, Case{"single", "{}", 4}, Case{"fat_tree", R"({"down": 2})", 1},
                    Case{"fat_tree", R"({"down": 4})", 3},
                    Case{"fat_tree", R"({"down": 4, "nodes_per_leaf": 3})", 2},
                    Case{"fat_tree", R"({"down": 4, "rails": true})", 4},
                    Case{"fat_tree", R"({"down": 2, "rails": true, "nodes_per_leaf": 5, "ecmp": 2})", 3},
                    Case{"fat_tree", R"({"down": 16, "rails": true, "oversubscription": 2})", 2},
                    Case{"torus", R"({"dimensions": 2})", 1}, Case{"torus", R"({"dimensions": 3})", 1},
                    Case{"torus", R"({"dimensions": 1})", 1}, Case{"ring", "{}", 1},
                    Case{"dragonfly", R"({"down": 2, "routers": 2, "global": 4})", 1},
                    Case{"dragonfly", R"({"down": 3, "routers": 4, "global": 2})", 2},
                    Case{"dragonfly", R"({"down": 1, "routers": 1, "global": 40})", 1},
                    Case{"sites", R"({"sites": {"usa": {"bandwidth": "1GB/s"}}})", 2},
                    Case{"sites", R"({"sites": {"usa": {"bandwidth": "1GB/s", "nodes": 1},
                                                "europe": {"bandwidth": "2GB/s"},
                                                "asia": {"bandwidth": "1GB/s"}}})",
                         3}));

TEST(Blocks, RegistryHoldsExactlyTheTestedOnes) {
  EXPECT_EQ(blocks_registry().names(),
            (std::vector<std::string>{"single", "fat_tree", "torus", "ring", "dragonfly", "sites"}));
}

TEST(Sites, HaveTheirNodesInOrderAndALineEach) {
  const auto network =
      make("sites", 9, 2,
           R"({"sites": {"usa": {"bandwidth": "4GB/s", "nodes": 4}, "europe": {"bandwidth": "1GB/s"},
                                          "asia": {"bandwidth": "0.5GB/s"}}})");
  std::vector<uint64_t> links;
  network->route({3, 0}, {7, 1}, links);
  std::vector<std::string> labels;
  for (const uint64_t link : links) labels.push_back(network->label(link));
  EXPECT_EQ(labels, (std::vector<std::string>{"node3/port0>usa", "usa>internet", "internet>asia",
                                              "asia>node7/port1"}));
  EXPECT_EQ(network->bandwidth(links[0]).bytes_per_second, 12.5e9);
  EXPECT_EQ(network->bandwidth(links[1]).bytes_per_second, 4e9);
  EXPECT_EQ(network->bandwidth(links[2]).bytes_per_second, 0.5e9);
  const NodeRange usa = network->below(links[1]), asia = network->below(links[2]);
  EXPECT_EQ(std::pair(usa.first, usa.last), std::pair(int64_t{0}, int64_t{4}));
  EXPECT_EQ(std::pair(asia.first, asia.last), std::pair(int64_t{7}, int64_t{9}));
  links.clear();
  network->route({4, 0}, {6, 0}, links);
  EXPECT_EQ(links.size(), 2u) << "within a site nothing crosses the wide network";
}

TEST(Sites, RefuseWhatIsNoDivisionOfTheNodes) {
  for (const char* sites :
       {R"({})", R"({"a": {"bandwidth": "1GB/s", "nodes": 5}})",
        R"({"a": {"bandwidth": "1GB/s", "nodes": 3}})",
        R"({"a": {"bandwidth": "1GB/s", "nodes": 3}, "b": {"bandwidth": "1GB/s", "nodes": 3}})",
        R"({"a": {"nodes": 4}})", R"({"a": {"bandwidth": "fast"}})",
        R"({"internet": {"bandwidth": "1GB/s"}})", R"({"a:b": {"bandwidth": "1GB/s"}})",
        R"({"": {"bandwidth": "1GB/s"}})", R"([])", R"("a")", R"({"a": {"bandwidth": "1GB/s", "node": 4}})"})
    EXPECT_THROW(make("sites", 4, 1, std::string(R"({"sites": )") + sites + "}"), InputError) << sites;
  EXPECT_THROW(make("sites", 4, 1, "{}"), InputError);
}

/// The nodes below a link are those from which it leads to nodes that are not.
TEST(FatTree, KnowsWhichNodesAreBelowALink) {
  for (const std::string spec :
       {R"({"down": 8})", R"({"down": 4, "nodes_per_leaf": 3})", R"({"down": 4, "rails": true})",
        R"({"down": 8, "rails": true, "nodes_per_leaf": 5})"}) {
    const auto network = make("fat_tree", 40, 4, spec);
    for (int64_t a = 0; a < 40; ++a) {
      for (int64_t b = 0; b < 40; ++b) {
        if (a == b) continue;
        std::vector<uint64_t> links;
        network->route({a, static_cast<uint32_t>(b % 4)}, {b, static_cast<uint32_t>(a % 4)}, links);
        for (std::size_t i = 0; i < links.size(); ++i) {
          const NodeRange below = network->below(links[i]);
          const int64_t end = i < links.size() / 2 ? a : b, other = end == a ? b : a;
          EXPECT_TRUE(below.first <= end && end < below.last) << spec << " " << network->label(links[i]);
          // Rails of the same nodes meet above their leaves.
          const bool apart = other < below.first || other >= below.last;
          EXPECT_TRUE(apart || spec.find("rails") != std::string::npos) << network->label(links[i]);
        }
      }
    }
  }
}

/// Two flows on two cables: 1.5 on the fuller, so 0.75 of the rate. Others by drawing at random.
TEST(FatTree, HashedFlowsLeaveATrunkItsMeanOverItsFullestCable) {
  const auto share = [](int ports, int flows) {
    const std::string rest = ", \"nodes_per_leaf\": " + std::to_string(ports) + "}";
    const auto even = make("fat_tree", 4 * ports, 1, R"({"down": 8)" + rest);
    const auto hashed =
        make("fat_tree", 4 * ports, 1, R"({"down": 8, "ecmp": )" + std::to_string(flows) + rest);
    std::vector<uint64_t> links;
    even->route({0, 0}, {4 * ports - 1, 0}, links);
    return hashed->bandwidth(links[1]).bytes_per_second / even->bandwidth(links[1]).bytes_per_second;
  };
  uint64_t state = 1;
  const auto drawn = [&](int ports, int flows) {
    constexpr int kDraws = 20000;
    double sum = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<int> load(static_cast<std::size_t>(ports));
      for (int f = 0; f < ports * flows; ++f) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        ++load[(state >> 33) % load.size()];
      }
      sum += *std::max_element(load.begin(), load.end());
    }
    return flows * kDraws / sum;
  };
  EXPECT_NEAR(share(2, 1), 1 / 1.5, 0.04);
  for (const int ports : {4, 16, 32}) {
    for (const int flows : {1, 4, 64})
      EXPECT_NEAR(share(ports, flows), drawn(ports, flows), 0.02) << ports << " " << flows;
  }
}

/// Full bisection without oversubscription: every trunk carries what all its ports can send. One figure is
/// that of the leaves, a list goes on upwards.
TEST(FatTree, TrunksCarryTheirPortsDividedByTheOversubscription) {
  const std::pair<std::string, std::array<double, 2>> cases[] = {
      {"1", {1, 1}}, {"4", {4, 1}}, {"[4, 2]", {4, 2}}};
  for (const auto& [text, over] : cases) {
    const auto network = make("fat_tree", 64, 2, R"({"down": 8, "oversubscription": )" + text + "}");
    std::vector<uint64_t> links;
    network->route({0, 0}, {63, 0}, links);
    ASSERT_EQ(links.size(), 6u) << "port, leaf, spine and down again: 128 ports, 16 leaves, 2 spines";
    EXPECT_DOUBLE_EQ(network->bandwidth(links[0]).bytes_per_second, 12.5e9);
    EXPECT_DOUBLE_EQ(network->bandwidth(links[1]).bytes_per_second, 8 * 12.5e9 / over[0]);
    EXPECT_DOUBLE_EQ(network->bandwidth(links[2]).bytes_per_second, 64 * 12.5e9 / over[0] / over[1]);
    EXPECT_DOUBLE_EQ(network->bandwidth(links[3]).bytes_per_second, 64 * 12.5e9 / over[0] / over[1]);
  }
}

TEST(FatTree, OneRailNeedsOneLeafAndCrossingRailsGoesUp) {
  const auto network = make("fat_tree", 16, 4, R"({"down": 16, "rails": true})");
  std::vector<uint64_t> same, cross;
  network->route({0, 2}, {15, 2}, same);
  network->route({0, 2}, {15, 3}, cross);
  EXPECT_EQ(same.size(), 2u);
  EXPECT_EQ(cross.size(), 4u);
}

TEST(Torus, GoesTheShorterWayRound) {
  const auto network = make("torus", 64, 1, R"({"sizes": [8, 8]})");
  const auto hops = [&](int64_t a, int64_t b) {
    std::vector<uint64_t> links;
    network->route({a, 0}, {b, 0}, links);
    return links.size();
  };
  EXPECT_EQ(hops(0, 7), 1u);
  EXPECT_EQ(hops(0, 63), 2u);
  EXPECT_EQ(hops(0, 36), 8u) << "half way round in both axes";
  EXPECT_EQ(network->link_count(), 256u);
}

TEST(Dragonfly, CrossesAtMostOneGlobalCableAndSpreadsThem) {
  // 72 ports: the balanced dragonfly of 9 groups of 4 routers with 2 ports and 2 global cables.
  const auto network = make("dragonfly", 72, 1, R"({"down": 2, "routers": 4, "global": 2})");
  EXPECT_EQ(network->link_count(), 2u * 72 + 9 * 4 * 3 + 9 * 8);
  std::set<std::string> global;
  for (int64_t a = 0; a < 72; ++a) {
    for (int64_t b = 0; b < 72; ++b) {
      if (a == b) continue;
      std::vector<uint64_t> links;
      network->route({a, 0}, {b, 0}, links);
      EXPECT_LE(links.size(), 5u);
      for (const uint64_t id : links) {
        const std::string label = network->label(id);
        const auto other = label.find(">group");
        if (label.rfind("group", 0) == 0 && other != std::string::npos &&
            label.substr(0, label.find('-')) != label.substr(other + 1, label.find('-', other) - other - 1))
          global.insert(label);
      }
    }
  }
  EXPECT_EQ(global.size(), 72u) << "every group reaches each of the other eight by its own cable";
  EXPECT_THROW(make("dragonfly", 80, 1, R"({"down": 2, "routers": 4, "global": 2})"), InputError);
}

/// Average distance on an even ring of n is n/4 (with the node itself counted).
TEST(Ring, MeanDistanceIsAQuarterOfTheNodes) {
  const auto network = make("ring", 20, 1, "{}");
  std::size_t total = 0;
  for (int64_t b = 1; b < 20; ++b) {
    std::vector<uint64_t> links;
    network->route({0, 0}, {b, 0}, links);
    total += links.size();
  }
  EXPECT_EQ(total, 20u * 20 / 4);
}

TEST(Torus, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(make("torus", 64, 1, R"({"sizes": [8, 7]})"), InputError);
  EXPECT_THROW(make("torus", 64, 2, "{}"), InputError);
  EXPECT_THROW(make("torus", 64, 1, R"({"sizes": []})"), InputError);
  EXPECT_THROW(make("torus", 64, 1, R"({"sizes": [1000000000, 1000000000, 1000000000]})"), InputError);
  EXPECT_THROW(make("ring", 1'000'000'000, 1, "{}"), InputError)
      << "routes would be half a billion links long";
  EXPECT_THROW(make("fat_tree", 4, 1, R"({"down": 1})"), InputError);
  EXPECT_THROW(make("fat_tree", 4, 1, R"({"down": 4, "oversubscription": 0})"), InputError);
}

}  // namespace
}  // namespace tandem::tests

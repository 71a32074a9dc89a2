// SPDX-License-Identifier: Apache-2.0
// Several kinds of nodes in one system.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topologies/export/exporter.h"
#include "topologies/system.h"
#include "topologies/system_impl.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

/// Nodes of two GPUs below a CPU; `kinds` is the value of "node_kinds".
std::string cluster(int nodes, const std::string& kinds) {
  return R"({"name": "mixed", "summary": "", "nodes": )" + std::to_string(nodes) + R"(, "node_kinds": )" +
         kinds + R"(,
    "devices": {"gpu[0-1]": {"model": "v100-pcie"}, "cpu0": {"model": "xeon-e5-2698v4"}},
    "vertices": {"nic0": {"kind": "nic"}},
    "links": {"pcie": {"bandwidth": "15.75GB/s", "latency": "1us", "between": [["gpu[0-1]", "cpu0"], ["nic0", "cpu0"]]}},
    "peer_access": {"reach": "host_bridge", "through_host_cap": "10GB/s"},
    "host": {"cores": 8, "core_speed": 1, "jitter": 0.02, "shared_storage": "1GB/s"},
    "network": {"block": "single", "bandwidth": "100Gbit/s", "latency": "1us",
      "transport": {"name": "rdma", "latency": "2us", "gpudirect": "host_bridge"}}})";
}

const char* const kSlow = R"({"slow": {"nodes": 2,
  "devices": {"gpu[0-1]": {"model": "p100-pcie"}, "cpu0": {"model": "xeon-e5-2690v4"}},
  "host": {"cores": 4, "core_speed": 0.5}}})";

/// Three GPUs, of which two are used, behind a switch.
const char* const kWide = R"({"wide": {"nodes": 1,
  "devices": {"gpu[0-2]": {"model": "p100-pcie"}, "cpu0": {"model": "xeon-e5-2690v4"}},
  "place": ["gpu[1-2]"],
  "vertices": {"nic0": {"kind": "nic"}, "plx0": {"kind": "pcie_switch"}},
  "links": {"pcie": {"bandwidth": "31.5GB/s", "latency": "1us",
    "between": [["gpu[0-2]", "plx0"], ["plx0", "cpu0"], ["nic0", "plx0"]]}}}})";

System read(const std::string& text, const System::Sets& sets = {}) {
  return System::from_json(Json::parse(text, "mixed.json"), sets);
}

std::string refusal(const std::string& text, const System::Sets& sets = {}) {
  try {
    read(text, sets);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(SystemKinds, TheKindsAreTheLastNodes) {
  const System s = read(cluster(5, kSlow));
  EXPECT_EQ(s.nodes(), 5);
  EXPECT_EQ(s.accelerator_count(), 10);
  ASSERT_EQ(s.kinds().size(), 2U);
  EXPECT_EQ(s.kinds()[1].name, "slow");
  EXPECT_EQ(s.kinds()[1].first, 3);
  for (int64_t i = 0; i < 10; ++i) {
    const VertexId v = s.accelerator(i);
    EXPECT_EQ(s.node_of(v), i / 2);
    EXPECT_EQ(s.device(v).name, i < 6 ? "v100-pcie" : "p100-pcie") << i;
    EXPECT_EQ(s.device(s.host_of(v)).name, i < 6 ? "xeon-e5-2698v4" : "xeon-e5-2690v4");
  }
  EXPECT_EQ(s.host(0).cores, 8);
  EXPECT_EQ(s.host(1).cores, 4);
  EXPECT_DOUBLE_EQ(s.host(1).jitter, 0.02) << "one for all nodes";
  EXPECT_DOUBLE_EQ(s.host(1).shared_storage.bytes_per_second, 1e9);
  EXPECT_TRUE(s.same_shape(0, 1));
}

TEST(SystemKinds, IdsAreDenseAndRoutesConnectWhateverTheShapes) {
  const System s = read(cluster(3, kWide));
  EXPECT_FALSE(s.same_shape(0, 1));
  std::set<VertexId> vertices;
  for (int64_t node = 0; node < 3; ++node) {
    const std::size_t kind = node == 2 ? 1 : 0;
    for (uint32_t local = 0; local < s.vertices(kind).size(); ++local) {
      const VertexId v = s.vertex(node, local);
      vertices.insert(v);
      EXPECT_EQ(s.node_of(v), node);
      EXPECT_EQ(s.kind_of(v), kind);
      EXPECT_EQ(s.info(v).name, s.vertices(kind)[local].name);
    }
  }
  EXPECT_EQ(vertices.size(), 2 * 4 + 6U);
  EXPECT_EQ(*vertices.rbegin(), vertices.size() - 1);
  std::set<std::string> names;
  for (LinkId l = 0; l < s.link_count(); ++l) names.insert(s.link(l).name);
  EXPECT_EQ(names.size(), s.link_count());
  EXPECT_EQ(s.vertex_name(s.accelerator(4)), "node2/gpu1");
  std::vector<std::string> way;
  for (const LinkId l : s.route(s.accelerator(4), s.accelerator(0)).links) way.push_back(s.link(l).name);
  EXPECT_EQ(way.front(), "node2/gpu1>plx0");
  EXPECT_EQ(way[1], "node2/plx0>nic0");
  EXPECT_EQ(way.back(), "node0/cpu0>gpu0");
  const LinkId inside = s.route(s.accelerator(4), s.accelerator(5)).links.front();
  EXPECT_DOUBLE_EQ(s.usable(inside), 31.5e9);
  EXPECT_EQ(s.link(s.reverse(inside)).name, "node2/plx0>gpu1");
}

TEST(SystemKinds, FiguresOfTheBaseReachKindsThatDoNotStateThem) {
  const System s = read(cluster(3, kSlow), {{"links.pcie.bandwidth", "8GB/s"}});
  for (const int64_t i : {0, 4}) {
    const Route r = s.route(s.accelerator(i), s.accelerator(i + 1));
    EXPECT_DOUBLE_EQ(s.usable(r.links.front()), 8e9);
    EXPECT_NEAR(r.cap, 10e9 * 8 / 15.75, 1) << "scaled with the links that it was measured on";
  }
  const System wide = read(cluster(3, kWide), {{"node_kinds.wide.links.pcie.bandwidth", "63GB/s"}});
  EXPECT_NEAR(wide.route(wide.accelerator(4), wide.accelerator(5)).cap, 0, 0) << "below a switch";
  EXPECT_DOUBLE_EQ(wide.usable(wide.route(wide.accelerator(4), wide.accelerator(5)).links.front()), 63e9);
}

TEST(SystemKinds, FaultsStrikeNodesOfTheKindsThatHaveThem) {
  const System all = read(cluster(4, kSlow), {{"faults.gpu1", "0.5"}});
  for (const int64_t i : {1, 3, 5, 7}) EXPECT_DOUBLE_EQ(all.speed(all.accelerator(i)), 0.5);
  const System one = read(cluster(4, kSlow), {{"faults.node3/gpu1", "0.5"}});
  EXPECT_DOUBLE_EQ(one.speed(one.accelerator(7)), 0.5);
  EXPECT_DOUBLE_EQ(one.speed(one.accelerator(5)), 1);
  const System wide = read(cluster(3, kWide), {{"faults.plx0:cpu0", "0.5"}});
  EXPECT_EQ(wide.faults().size(), 1U);
}

TEST(SystemKinds, OtherAcceleratorsAreForAllKinds) {
  const System s = read(cluster(4, kSlow), {{"device", "rtx-4090"}});
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(s.device(s.accelerator(i)).name, "rtx-4090");
  EXPECT_EQ(s.kinds().size(), 2U) << "their hosts still differ";
}

TEST(SystemKinds, WhatCannotBeIsRefusedInOneMessage) {
  EXPECT_THAT(refusal(cluster(1, kSlow)),
              HasSubstr("its kinds have 2 nodes, but \"nodes\", which counts all, is 1"));
  EXPECT_THAT(refusal(cluster(3, R"({"odd": {"nodes": 1, "devices": {"gpu0": {"model": "p100-pcie"},
                                     "cpu0": {"model": "xeon-e5-2690v4"}},
                                     "links": {"pcie": {"bandwidth": "1GB/s", "latency": "1us",
                                     "between": [["gpu0", "cpu0"], ["nic0", "cpu0"]]}}}})")),
              HasSubstr("nodes of \"odd\" have 1 accelerators each, the nodes outside \"node_kinds\" 2"));
  EXPECT_THAT(refusal(cluster(3, R"({"slow": {"nodes": 1, "host": {"jitter": 0.1}}})")),
              HasSubstr("\"jitter\" is one for all nodes"));
  EXPECT_THAT(refusal(cluster(3, R"({"slow": {"nodes": 1, "network": {}}})")), HasSubstr("network"));
  EXPECT_THAT(refusal(cluster(3, R"({"slow": {}})")), HasSubstr("mixed.json:1:"));
  EXPECT_THAT(refusal(cluster(3, "{}")), HasSubstr("1 to 64 kinds of nodes are expected"));
  EXPECT_THAT(refusal(cluster(3, R"({"slow": {"nodes": 1}})"), {{"place", "0,7"}}), HasSubstr("no device"));
}

TEST(SystemKinds, ExportersWriteAllNodesOrRefuse) {
  const System s = read(cluster(3, kWide));
  std::vector<std::string> notes;
  const std::string platform = export_registry().find("simgrid")->write(s, notes);
  EXPECT_THAT(platform, HasSubstr("<host id=\"node2/gpu2\""));
  EXPECT_THROW(export_registry().find("astra-sim")->write(s, notes), InputError);
}

TEST(SystemKinds, AllNodesMayBeOfKinds) {
  const System s = read(cluster(2, kSlow));
  ASSERT_EQ(s.kinds().size(), 1U);
  EXPECT_EQ(s.device(s.accelerator(0)).name, "p100-pcie");
}

TEST(SystemKinds, ListingAndDrawingHaveANodeOfEachKind) {
  const System s = read(cluster(5, kSlow));
  const Json listing = Json::parse(s.to_json_text(), "listing");
  ASSERT_EQ(listing.at("node_kinds").items().size(), 2U);
  EXPECT_EQ(listing.at("node_kinds").items()[1].at("first_node").as_int(), 3);
  EXPECT_EQ(listing.at("node_kinds").items()[1].at("devices").items()[0].at("model").as_text(), "p100-pcie");
  EXPECT_THAT(s.dot(), HasSubstr("\"node3/gpu1\" [label=\"gpu1\\np100-pcie\""));
  EXPECT_THAT(System::load("v100-pcie-8x").to_json_text(), Not(HasSubstr("node_kinds")));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// topologies/system_ports.cpp: which NICs a device uses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "topologies/system.h"

namespace tandem::tests {
namespace {

/// Nodes of GPUs and NICs below one switch.
System box(int gpus, int nics, const System::Sets& sets = {},
           const std::string& network = "\"block\": \"single\"") {
  return System::from_json(Json::parse(fmt::format(R"({{
  "name": "box", "summary": "s", "nodes": 2,
  "devices": {{"gpu[0-{0}]": {{"model": "h100-pcie"}}, "cpu0": {{"model": "epyc-9554"}}}},
  "vertices": {{"mem0": {{"kind": "memory"}}, "nic[0-{1}]": {{"kind": "nic"}}, "plx0": {{"kind": "pcie_switch"}}}},
  "links": {{
    "pcie": {{"bandwidth": "63GB/s", "achieved": 0.88, "latency": "0.7us",
             "between": [["gpu[0-{0}]", "plx0"], ["nic[0-{1}]", "plx0"], ["plx0", "cpu0"]]}},
    "memory": {{"bandwidth": "460GB/s", "latency": "0.1us", "duplex": "half", "between": [["cpu0", "mem0"]]}}
  }},
  "peer_access": {{"reach": "switch"}},
  "network": {{{2}, "bandwidth": "100Gbit/s", "achieved": 0.95, "latency": "0.6us",
    "transport": {{"name": "rdma", "latency": "2us", "gpudirect": "switch"}}}}}})",
                                                   gpus - 1, nics - 1, network),
                                       "box"),
                           sets);
}

/// GB/s between the first GPUs of two nodes.
double across(const System& s) {
  double rate = 1e300;
  const auto per_node = static_cast<int64_t>(s.accelerators().size());
  for (const LinkId l : s.route(s.accelerator(0), s.accelerator(per_node)).links)
    rate = std::min(rate, s.usable(l));
  return rate / 1e9;
}

std::set<LinkId> ports(const System& s) {
  std::set<LinkId> out;
  const auto per_node = static_cast<int64_t>(s.accelerators().size());
  for (int64_t i = 0; i < per_node; ++i) {
    for (const LinkId l : s.route(s.accelerator(i), s.accelerator(per_node + i)).links)
      if (s.link_kind(l) == "network") out.insert(l);
  }
  return out;
}

TEST(Ports, ADeviceUsesAllThatAreItsOwn) {
  EXPECT_NEAR(across(box(1, 1)), 11.875, 1e-6);
  EXPECT_NEAR(across(box(1, 2)), 23.75, 1e-6);
  EXPECT_NEAR(across(box(1, 4)), 47.5, 1e-6);
  EXPECT_NEAR(across(box(2, 4)), 23.75, 1e-6) << "two each";
  EXPECT_NEAR(across(box(4, 4)), 11.875, 1e-6);
}

TEST(Ports, TheyAreNamedTogether) {
  const std::string shown = box(1, 2).to_json_text();
  EXPECT_NE(shown.find("nic0+nic1"), std::string::npos) << shown;
  EXPECT_EQ(box(2, 2).to_json_text().find("+nic"), std::string::npos);
}

TEST(Ports, SeveralDevicesShareWhatIsTooFew) {
  EXPECT_NEAR(across(box(4, 2)), 11.875, 1e-6);
  EXPECT_EQ(ports(box(4, 2)).size(), 4u) << "both NICs, both ways";
  EXPECT_EQ(ports(box(4, 1)).size(), 2u);
}

TEST(Ports, DevicesThatAreLeftOutLeaveTheirNics) {
  EXPECT_NEAR(across(box(2, 2, {{"place", "0"}})), 23.75, 1e-6);
}

TEST(Ports, OneThatIsDownIsNotUsed) {
  EXPECT_NEAR(across(box(1, 2, {{"faults.nic1", "down"}})), 11.875, 1e-6);
  EXPECT_NEAR(across(box(1, 2, {{"faults.node1/nic0", "down"}})), 11.875, 1e-6);
}

TEST(Ports, TogetherInEveryNetwork) {
  for (const char* network :
       {"\"block\": \"fat_tree\", \"down\": 4", "\"block\": \"fat_tree\", \"down\": 4, \"rails\": true",
        "\"block\": \"ring\"", "\"block\": \"dragonfly\", \"down\": 4, \"routers\": 2, \"global\": 1"})
    EXPECT_NEAR(across(box(1, 2, {}, network)), 23.75, 1e-6) << network;
  // Two leaves of two ports each: the trunk between them has as much as before.
  const System s =
      box(1, 2, {{"nodes", "4"}}, "\"block\": \"fat_tree\", \"down\": 4, \"oversubscription\": 2");
  double least = 1e300;
  for (const LinkId l : s.route(s.accelerator(0), s.accelerator(3)).links)
    least = std::min(least, s.usable(l));
  EXPECT_NEAR(least / 1e9, 23.75, 1e-6);
}

TEST(Ports, BothHalvesOfADgxSpark) { EXPECT_NEAR(across(System::load("dgx-spark-2x")), 23.75, 1e-6); }

}  // namespace
}  // namespace tandem::tests

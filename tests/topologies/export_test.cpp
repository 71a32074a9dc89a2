// SPDX-License-Identifier: Apache-2.0
// topologies/export: what is written says what the System says.
#include "topologies/export/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <set>

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

std::string write(const std::string& kind, const System& system) {
  std::vector<std::string> notes;
  return export_registry().find(kind)->write(system, notes);
}

double number(const pugi::xml_node& node, const char* name) { return node.attribute(name).as_double(); }

class SimGrid : public testing::TestWithParam<const char*> {};

/// Narrowest link, latency and number of links of every route, read back from the XML.
TEST_P(SimGrid, RoutesKeepTheirRateAndLatency) {
  const System system = System::load(GetParam(), {{"nodes", "1"}});
  const std::string text = write("simgrid", system);
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(text.c_str()));
  const pugi::xml_node zone = document.child("platform").child("zone");
  std::map<std::string, pugi::xml_node> links;
  std::map<std::pair<std::string, std::string>, pugi::xml_node> routes;
  std::set<std::string> hosts;
  for (const auto& host : zone.children("host"))
    EXPECT_TRUE(hosts.insert(host.attribute("id").value()).second);
  for (const auto& link : zone.children("link"))
    EXPECT_TRUE(links.emplace(link.attribute("id").value(), link).second);
  for (const auto& route : zone.children("route"))
    routes[{route.attribute("src").value(), route.attribute("dst").value()}] = route;
  ASSERT_EQ(routes.size(), hosts.size() * (hosts.size() - 1));
  for (int64_t i = 0; i < system.accelerator_count(); ++i) {
    for (int64_t j = 0; j < system.accelerator_count(); ++j) {
      if (i == j) continue;
      const VertexId from = system.accelerator(i), to = system.accelerator(j);
      const Route way = system.route(from, to);
      double rate = way.cap > 0 ? way.cap : 1e18;
      for (const LinkId id : way.links) rate = std::min(rate, system.usable(id));
      double written = 1e18, latency = 0;
      std::size_t cables = 0;
      for (const auto& step :
           routes.at({system.vertex_name(from), system.vertex_name(to)}).children("link_ctn")) {
        const pugi::xml_node link = links.at(step.attribute("id").value());
        written = std::min(written, 1e6 * number(link, "bandwidth"));
        latency += 1e-6 * number(link, "latency");
        cables += std::string(link.attribute("sharing_policy").value()) == "SHARED" ? 1 : 0;
      }
      EXPECT_NEAR(written, rate, 1e-8 * rate);
      EXPECT_NEAR(latency, way.latency.seconds(), 1e-12);
      EXPECT_EQ(cables, way.links.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, SimGrid,
                         testing::Values("dgx1-v100", "dgx-h100", "2080ti-pcie-4x", "lisa-1080ti", "mi60-4x"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return "S" + name;
                         });

TEST(SimGridFile, HalfDuplexIsOneLinkAndFullDuplexTwo) {
  const std::string text = write("simgrid", System::load("2080ti-pcie-4x"));
  EXPECT_THAT(text, HasSubstr("-and-mem"));
  EXPECT_THAT(text, HasSubstr("id=\"gpu0-to-"));
  EXPECT_THAT(text, HasSubstr("-to-gpu0\""));
}

/// Values of "key: [ a, b ]".
std::vector<std::string> row(const std::string& text, const std::string& key) {
  const auto at = text.find(key + ": [ ");
  if (at == std::string::npos) return {};
  const auto from = at + key.size() + 4;
  std::vector<std::string> out = {""};
  for (const char c : text.substr(from, text.find(" ]", from) - from)) {
    if (c == ',') out.emplace_back();
    if (c != ',' && c != ' ') out.back() += c;
  }
  return out;
}
using Words = std::vector<std::string>;
constexpr double kGb = 1073741824.0;  // ASTRA-sim's

TEST(AstraSim, SwitchesInNodesAndBetweenThem) {
  const System system = System::load("dgx-h100", {{"nodes", "4"}});
  const std::string text = write("astra-sim", system);
  EXPECT_EQ(row(text, "topology"), (Words{"Switch", "Switch"}));
  EXPECT_EQ(row(text, "npus_count"), (Words{"8", "4"}));
  EXPECT_NEAR(std::stod(row(text, "bandwidth")[0]) * kGb, 18 * 25e9 * 0.88, 1e6);
  EXPECT_NEAR(std::stod(row(text, "bandwidth")[1]) * kGb, 50e9 * 0.92, 1e6)
      << "a NIC of its own for each GPU";
  EXPECT_NEAR(std::stod(row(text, "latency")[0]), 300, 1e-3) << "of one of two hops";
}

TEST(AstraSim, AnOversubscribedTreeIsAsFastAsItsTrunk) {
  const auto rate = [](const char* thin) {
    const System s = System::load("dgx1-p100", {{"nodes", "32"}, {"network.oversubscription", thin}});
    return std::stod(row(write("astra-sim", s), "bandwidth")[1]);
  };
  EXPECT_NEAR(rate("8"), rate("1") / 8, 1e-3 * rate("1"));
}

TEST(AstraSim, ToriAreRingsInnermostFirst) {
  const std::string text = write("astra-sim", System::load("tpu-v2-pod", {{"nodes", "32"}}));
  EXPECT_EQ(row(text, "topology"), (Words{"Ring", "Ring"}));
  EXPECT_EQ(row(text, "npus_count"), (Words{"4", "8"}));
  EXPECT_NEAR(std::stod(row(text, "bandwidth")[0]) * kGb, 62e9 * 0.8, 1e6);
}

TEST(AstraSim, WhatItHasNoWordForIsNoted) {
  std::vector<std::string> notes;
  const std::string mesh = export_registry().find("astra-sim")->write(System::load("dgx1-v100"), notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("mesh"));
  EXPECT_THAT(mesh, HasSubstr("# the devices of a node"));
  EXPECT_NEAR(std::stod(row(mesh, "bandwidth")[0]) * kGb, 6 * 25e9 * 0.97, 1e6) << "six cables each";
  notes.clear();
  export_registry().find("astra-sim")->write(System::load("2080ti-pcie-8x"), notes);
  EXPECT_THAT(notes.at(0), HasSubstr("tree"));
  EXPECT_THROW(write("astra-sim", System::load("p3.2xlarge")), InputError) << "one device alone";
}

TEST(AstraSim, FullyConnectedGroupsAndTheirAlgorithms) {
  const System system = System::load("mi300x-8x");
  EXPECT_EQ(row(write("astra-sim", system), "topology"), (Words{"FullyConnected"}));
  const auto json = nlohmann::json::parse(write("astra-sim-system", system));
  EXPECT_EQ(json["all-reduce-implementation"], nlohmann::json::array({"direct"}));
  EXPECT_NEAR(json["local-mem-bw"], 5300, 1);
}

}  // namespace
}  // namespace tandem::tests

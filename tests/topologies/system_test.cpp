// SPDX-License-Identifier: Apache-2.0
// What holds for every system, and how --set changes one.
#include "topologies/system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "base/data.h"

namespace tandem::tests {
namespace {

double narrowest(const System& s, const Route& r) {
  double out = r.cap > 0 ? r.cap : 1e30;
  for (const LinkId l : r.links) out = std::min(out, s.usable(l));
  return out;
}

/// "node2/gpu0>plx0" -> {"node2/gpu0", "node2/plx0"}.
std::pair<std::string, std::string> ends(const std::string& label) {
  const auto arrow = label.find('>'), slash = label.find('/');
  const std::string prefix = slash < arrow ? label.substr(0, slash + 1) : "";
  return {label.substr(0, arrow), prefix + label.substr(arrow + 1)};
}

class EverySystem : public testing::TestWithParam<std::string> {};

void check_route(const System& s, VertexId a, VertexId b) {
  const Route there = s.route(a, b), back = s.route(b, a);
  SCOPED_TRACE(s.vertex_name(a) + " to " + s.vertex_name(b));
  ASSERT_FALSE(there.links.empty());
  EXPECT_EQ(there.links.size(), back.links.size());
  EXPECT_EQ(there.latency.ps, back.latency.ps);
  EXPECT_EQ(there.staged, back.staged);
  EXPECT_DOUBLE_EQ(narrowest(s, there), narrowest(s, back));
  EXPECT_GT(narrowest(s, there), 1e6);
  EXPECT_GT(there.latency.ps, 0);
  for (const LinkId l : there.links) {
    ASSERT_LT(l, s.link_count());
    const LinkInfo info = s.link(l);
    EXPECT_DOUBLE_EQ(info.usable(), s.usable(l));
    EXPECT_EQ(info.kind, s.link_kind(l));
    EXPECT_EQ(std::min(l, info.shared_with), s.pool(l));
    EXPECT_EQ(s.link(info.shared_with).shared_with, l);
  }
  if (s.node_of(a) != s.node_of(b)) return;
  std::string at = s.vertex_name(a);
  for (const LinkId l : there.links) {
    const auto [from, to] = ends(s.link(l).name);
    ASSERT_EQ(from, at);
    EXPECT_EQ(ends(s.link(s.reverse(l)).name), std::make_pair(to, from));
    at = to;
  }
  EXPECT_EQ(at, s.vertex_name(b));
}

TEST_P(EverySystem, JoinsAllPairsBothWaysEqually) {
  const System s = System::load(GetParam(), {{"nodes", "1"}});
  ASSERT_GE(s.accelerator_count(), 1);
  EXPECT_EQ(s.name(), GetParam());
  for (int64_t i = 0; i < s.accelerator_count(); ++i) {
    const VertexId a = s.accelerator(i);
    for (int64_t j = 0; j < i; ++j) check_route(s, a, s.accelerator(j));
    if (s.host_of(a) != a) check_route(s, a, s.host_of(a));
    EXPECT_TRUE(s.route(a, a).links.empty());
  }
}

TEST_P(EverySystem, ScalesOut) {
  const System s = System::load(GetParam(), {{"nodes", "5"}});
  const auto per_node = static_cast<int64_t>(s.accelerators().size());
  EXPECT_EQ(s.accelerator_count(), 5 * per_node);
  for (int64_t i = 0; i < std::min<int64_t>(per_node, 16); ++i) {
    check_route(s, s.accelerator(i), s.accelerator(4 * per_node + (i * 3 + 1) % per_node));
    EXPECT_EQ(s.node_of(s.accelerator(per_node + i)), 1);
  }
  check_route(s, s.host_of(s.accelerator(0)), s.host_of(s.accelerator(3 * per_node)));
}

TEST_P(EverySystem, ShowsItself) {
  const System s = System::load(GetParam());
  const auto json = nlohmann::json::parse(s.to_json_text());
  EXPECT_EQ(json["name"], GetParam());
  EXPECT_EQ(json["nodes"], s.nodes());
  std::set<std::string> ids;
  for (const auto& d : json["devices"]) {
    EXPECT_TRUE(ids.insert(d["id"]).second);
    EXPECT_TRUE(d["kind"] == "gpu" || d["kind"] == "cpu" || d["kind"] == "tpu");
    EXPECT_FALSE(d["model"].get<std::string>().empty());
    EXPECT_TRUE(d["numa"].is_number_integer());
  }
  for (const auto& v : json["vertices"]) EXPECT_TRUE(ids.insert(v["id"]).second);
  EXPECT_EQ(ids.size(), s.vertices().size());
  for (const auto& l : json["links"]) {
    EXPECT_TRUE(ids.count(l["from"]) == 1 && ids.count(l["to"]) == 1);
    EXPECT_GT(l["bandwidth_bytes_per_second"].get<double>(), 0);
    EXPECT_GT(l["latency_seconds"].get<double>(), 0);
  }
  const std::string dot = s.dot();
  const std::string node = s.kinds().size() > 1 ? "node0/" : "";
  for (const Vertex& v : s.vertices()) EXPECT_NE(dot.find("\"" + node + v.name + "\" ["), std::string::npos);
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

// Their names alone: each test is a process of its own, which need not read all files.
const auto kNames = testing::ValuesIn(list_data("topologies/systems"));
INSTANTIATE_TEST_SUITE_P(All, EverySystem, kNames, [](const auto& info) {
  std::string out = info.param;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return out;
});

TEST(System, AHundredThousandDevicesCostWhatOneNodeCosts) {
  const auto start = std::chrono::steady_clock::now();
  const System s = System::load("dgx-h100", {{"nodes", "12500"}});
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(s.accelerator_count(), 100'000);
  // Under 1 ms in a release build; the limit leaves room for sanitizers.
  EXPECT_LT(std::chrono::duration<double>(took).count(), 0.2);
  check_route(s, s.accelerator(0), s.accelerator(99'999));
  EXPECT_EQ(s.vertex_name(s.accelerator(99'999)), "node12499/gpu7");
}

TEST(System, SetChangesOneThing) {
  const System plain = System::load("v100-pcie-8x");
  const System fast = System::load("v100-pcie-8x", {{"links.pcie.bandwidth", "32GB/s"}, {"nodes", "3"}});
  EXPECT_EQ(fast.nodes(), 3);
  const LinkId first = plain.route(plain.accelerator(0), plain.accelerator(1)).links.front();
  EXPECT_DOUBLE_EQ(plain.link(first).bandwidth.bytes_per_second, 15.75e9);
  const LinkId same = fast.route(fast.accelerator(0), fast.accelerator(1)).links.front();
  EXPECT_DOUBLE_EQ(fast.link(same).bandwidth.bytes_per_second, 32e9);
  const System other = System::load("infiniband-cluster", {{"devices.gpu[0-7].model", "v100-pcie"}});
  EXPECT_EQ(other.device(other.accelerator(0)).name, "v100-pcie");
  const System slow =
      System::load("lisa-1080ti", {{"host.shared_storage", "1GB/s"}, {"network.bandwidth", "10Gbit/s"}});
  EXPECT_DOUBLE_EQ(slow.host().shared_storage.bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(narrowest(slow, slow.route(slow.accelerator(0), slow.accelerator(4))), 0.9 * 1.25e9);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// The systems against what is known of the machines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "topologies/system.h"

namespace tandem::tests {
namespace {

Route between(const System& s, int64_t a, int64_t b) { return s.route(s.accelerator(a), s.accelerator(b)); }

bool only(const System& s, const Route& r, std::string_view kind) {
  for (const LinkId l : r.links) {
    if (s.link_kind(l) != kind) return false;
  }
  return !r.links.empty();
}

/// NVLink cables between each pair of GPUs that has a direct one.
std::map<std::pair<int, int>, int> cables(const System& s, double per_cable) {
  std::map<std::pair<int, int>, int> out;
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      const Route r = between(s, a, b);
      if (only(s, r, "nvlink")) {
        EXPECT_EQ(r.links.size(), 1u);
        out[{a, b}] = static_cast<int>(s.link(r.links[0]).bandwidth.bytes_per_second / per_cable + 0.5);
      }
    }
  }
  return out;
}

TEST(Dgx1V100, HasTheHybridCubeMesh) {
  const std::map<std::pair<int, int>, int> expected = {
      {{0, 3}, 2}, {{0, 4}, 2}, {{1, 2}, 2}, {{1, 5}, 2}, {{2, 3}, 2}, {{4, 7}, 2}, {{5, 6}, 2}, {{6, 7}, 2},
      {{0, 1}, 1}, {{0, 2}, 1}, {{1, 3}, 1}, {{2, 6}, 1}, {{3, 7}, 1}, {{4, 5}, 1}, {{4, 6}, 1}, {{5, 7}, 1}};
  for (const char* name : {"dgx1-v100", "dgx1-v100-32gb", "p3.16xlarge", "p3dn.24xlarge", "v100-mesh-1ib"}) {
    SCOPED_TRACE(name);
    const auto mesh = cables(System::load(name, {{"nodes", "1"}}), 25e9);
    EXPECT_EQ(mesh, expected);
    std::map<int, int> per_gpu;
    for (const auto& [pair, n] : mesh) {
      per_gpu[pair.first] += n;
      per_gpu[pair.second] += n;
    }
    for (const auto& [gpu, n] : per_gpu) EXPECT_EQ(n, 6) << gpu;
  }
}

TEST(Dgx1P100, HasSixteenSingleCables) {
  const auto mesh = cables(System::load("dgx1-p100"), 20e9);
  EXPECT_EQ(mesh.size(), 16u);
  for (const auto& [pair, n] : mesh) {
    const auto [a, b] = pair;
    EXPECT_EQ(n, 1);
    EXPECT_TRUE(a / 4 == b / 4 || b == a + 4) << a << " " << b;
  }
}

TEST(Dgx1V100, PairsWithoutACableAreStagedUnlessGpusForward) {
  const System s = System::load("dgx1-v100");
  const Route staged = between(s, 0, 5);
  EXPECT_EQ(staged.staged, 1);
  std::multiset<std::string> kinds;
  for (const LinkId l : staged.links) kinds.emplace(s.link_kind(l));
  EXPECT_EQ(kinds,
            (std::multiset<std::string>{"pcie", "pcie", "pcie", "pcie", "socket", "memory", "memory"}));
  const System forwarding = System::load("dgx1-v100", {{"peer_access.through_gpus", "true"}});
  const Route hop = between(forwarding, 0, 5);
  EXPECT_EQ(hop.staged, 0);
  EXPECT_EQ(hop.links.size(), 2u);
  EXPECT_TRUE(only(forwarding, hop, "nvlink"));
  // GPU 4 is joined to GPU 5 by one cable, GPU 1 by two to GPU 5 but by one to GPU 0: 25 GB/s either way.
  EXPECT_DOUBLE_EQ(forwarding.usable(hop.links[0]) + forwarding.usable(hop.links[1]), 3 * 25e9 * 0.97);
}

TEST(P4d, TwoGpusShareOneNic) {
  const System s = System::load("p4d.24xlarge", {{"nodes", "2"}});
  std::map<std::string, int> uses;
  for (int64_t i = 0; i < 8; ++i) {
    const Route r = between(s, i, 8 + i);
    EXPECT_EQ(r.staged, 0) << "GPUDirect below one switch";
    for (const LinkId l : r.links) {
      const std::string name = s.link(l).name;
      if (name.starts_with("node0/port")) ++uses[name];
    }
  }
  EXPECT_EQ(uses.size(), 4u);
  for (const auto& [name, n] : uses) EXPECT_EQ(n, 2) << name;
}

TEST(NvSwitch, JoinsAllPairsAtFullRate) {
  struct Row {
    const char* name;
    double rate;
  };
  for (const Row& row :
       {Row{"dgx2", 150e9}, Row{"dgx-a100", 300e9}, Row{"dgx-h100", 450e9}, Row{"hgx-h200", 450e9},
        Row{"h800-sxm-8x", 200e9}, Row{"dgx-b200", 900e9}, Row{"gb200-nvl72", 900e9},
        Row{"a2-megagpu-16g", 300e9}, Row{"p6-b300.48xlarge", 900e9}, Row{"azure-ndv5-h100", 450e9}}) {
    const System s = System::load(row.name);
    for (int64_t j = 1; j < s.accelerator_count(); ++j) {
      const Route r = between(s, 0, j);
      ASSERT_TRUE(only(s, r, "nvlink")) << row.name << " " << j;
      EXPECT_DOUBLE_EQ(s.link(r.links.front()).bandwidth.bytes_per_second, row.rate) << row.name;
      EXPECT_EQ(r.staged, 0);
    }
  }
}

TEST(DgxH100, EachGpuHasItsOwnRail) {
  const System s = System::load("dgx-h100", {{"nodes", "64"}});
  std::set<std::string> first;
  for (int64_t i = 0; i < 8; ++i) {
    const Route r = between(s, i, 8 + i);
    EXPECT_EQ(r.links.size(), 2u + 2u + 2u) << "GPU, switch, NIC, leaf and the same again";
    EXPECT_EQ(r.staged, 0);
    for (const LinkId l : r.links) {
      if (s.link_kind(l) == "network") {
        first.insert(s.link(l).name);
        break;
      }
    }
  }
  EXPECT_EQ(first.size(), 8u);
}

TEST(PcieServers, ShareTheSwitchUplinkAndTheSocketLink) {
  const System s = System::load("v100-pcie-8x");
  const Route near = between(s, 0, 1), socket = between(s, 0, 2), far = between(s, 0, 7),
              far2 = between(s, 1, 6);
  EXPECT_EQ(near.links.size(), 2u);
  EXPECT_EQ(near.staged, 0) << "one switch: peer access";
  EXPECT_EQ(socket.staged, 1) << "NCCL's default: no peer access through the host bridge";
  EXPECT_EQ(far.staged, 1);
  const auto crosses = [&](const Route& r, std::string_view name) {
    for (const LinkId l : r.links) {
      if (s.link(l).name == name) return true;
    }
    return false;
  };
  for (const Route* r : {&far, &far2}) {
    EXPECT_TRUE(crosses(*r, "plx0>cpu0"));
    EXPECT_TRUE(crosses(*r, "cpu0>cpu1"));
  }
  const System open = System::load("v100-pcie-8x", {{"peer_access.reach", "system"}});
  EXPECT_EQ(between(open, 0, 7).staged, 0);
  const System closed = System::load("v100-pcie-8x", {{"peer_access.reach", "none"}});
  EXPECT_EQ(between(closed, 0, 1).staged, 1);
}

TEST(Lisa, PeersUnderOneSocketAndTcpBetweenNodes) {
  const System s = System::load("lisa-1080ti");
  EXPECT_EQ(s.nodes(), 16);
  EXPECT_EQ(s.accelerator_count(), 64);
  EXPECT_EQ(s.host().cores, 12);
  EXPECT_EQ(between(s, 0, 1).staged, 0);
  EXPECT_EQ(between(s, 0, 2).staged, 1);
  const Route r = between(s, 0, 4);
  EXPECT_EQ(r.staged, 2) << "no GPUDirect at either end";
  EXPECT_EQ(s.route(s.host_of(s.accelerator(0)), s.host_of(s.accelerator(4))).staged, 0);
}

TEST(HalfDuplex, BothDirectionsShareOnePool) {
  const System s = System::load("lisa-1080ti", {{"nodes", "2"}});
  int half = 0, full = 0;
  for (LinkId l = 0; l < s.link_count(); ++l) {
    const LinkInfo info = s.link(l);
    if (info.kind == "memory") {
      ++half;
      EXPECT_NE(info.shared_with, l);
      EXPECT_EQ(s.pool(l), s.pool(info.shared_with));
    } else {
      ++full;
      EXPECT_EQ(info.shared_with, l);
    }
  }
  EXPECT_EQ(half, 2 * 2 * 2);
  EXPECT_GT(full, half);
  const System simplex = System::load("v100-pcie-8x", {{"links.pcie.duplex", "half"}});
  const Route r = between(simplex, 0, 1), back = between(simplex, 1, 0);
  EXPECT_EQ(simplex.pool(r.links[0]), simplex.pool(back.links[1]));
}

TEST(AmdRing, NeighboursUseTheFabricAndOthersPcie) {
  for (const char* name : {"mi50-4x", "mi60-4x"}) {
    const System s = System::load(name);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(only(s, between(s, i, (i + 1) % 4), "xgmi"));
      EXPECT_FALSE(only(s, between(s, i, (i + 2) % 4), "xgmi"));
    }
  }
  const System mi300 = System::load("mi300x-8x");
  for (int64_t i = 1; i < 8; ++i) EXPECT_TRUE(only(mi300, between(mi300, 0, i), "xgmi"));
}

TEST(K80, TwoGpusOfABoardShareItsUplink) {
  const System s = System::load("p2.8xlarge");
  EXPECT_EQ(s.accelerator_count(), 8);
  EXPECT_EQ(between(s, 0, 1).links.size(), 2u);
  const Route a = s.route(s.host_of(s.accelerator(0)), s.accelerator(0)),
              b = s.route(s.host_of(s.accelerator(1)), s.accelerator(1));
  EXPECT_EQ(a.links.front(), b.links.front());
  EXPECT_NE(a.links.back(), b.links.back());
}

TEST(TpuPod, IsATorusOfChips) {
  const System s = System::load("tpu-v3-pod");
  EXPECT_EQ(s.accelerator_count(), 1024);
  EXPECT_EQ(between(s, 0, 31).links.size(), 1u) << "round the row of 32";
  EXPECT_EQ(between(s, 0, 16 * 32 + 16).links.size(), 32u);
}

TEST(CpuClusters, TrainOnTheirSockets) {
  const System s = System::load("skylake-opa");
  EXPECT_EQ(s.nodes(), 448);
  ASSERT_EQ(s.accelerators().size(), 2u);
  EXPECT_EQ(s.info(s.accelerator(0)).kind, VertexKind::cpu);
  EXPECT_EQ(s.host_of(s.accelerator(1)), s.accelerator(1));
}

/// A node of two processors as two devices, or as one with the cores and the memory of both.
TEST(Sockets, AreDevicesOrOneDeviceTogether) {
  const System two = System::load("skylake-opa", {{"nodes", "1"}});
  ASSERT_EQ(two.accelerators().size(), 2u);
  const Route across = between(two, 0, 1);
  EXPECT_TRUE(only(two, across, "socket"));
  const auto one = [](const char* device) {
    return System::from_json(Json::parse(fmt::format(R"({{
      "name": "one", "summary": "one process a node", "sources": ["test"], "nodes": 1,
      "devices": {{"cpu0": {{"model": "xeon-platinum-8160", "sockets": 2}}{}}},
      "vertices": {{"mem0": {{"kind": "memory"}}}},
      "links": {{"memory": {{"bandwidth": "256GB/s", "achieved": 0.8, "latency": "0.1us", "duplex": "half",
        "between": [["cpu0", "mem0"]]}}}},
      "peer_access": {{"reach": "system"}},
      "host": {{"cores": 48, "core_speed": 1.1, "local_storage": "1GB/s"}},
      "communication": {{"library": "mpi"}}}})",
                                                     device),
                                         "one.json"));
  };
  const System whole = one("");
  const Device &part = two.device(two.accelerator(0)), &both = whole.device(whole.accelerator(0));
  EXPECT_EQ(both.units, 2 * part.units);
  EXPECT_EQ(both.memory.n, 2 * part.memory.n);
  EXPECT_DOUBLE_EQ(both.memory_bandwidth.bytes_per_second, 2 * part.memory_bandwidth.bytes_per_second);
  EXPECT_DOUBLE_EQ(both.peak_at(Precision::fp32).flops_per_second,
                   2 * part.peak_at(Precision::fp32).flops_per_second);
  EXPECT_EQ(both.name, "2x xeon-platinum-8160");
  EXPECT_THROW(one(R"(, "gpu0": {"model": "v100-pcie", "sockets": 2})"), InputError);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/link_cost.h"
#include "sim/cost/layout.h"
#include "sim/cost/libraries.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "schemes/collectives/collectives.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/link_profile.h"
#include "sim/cost/network_software.h"

namespace tandem::tests {
namespace {

/// Two GPUs and a NIC below one PCIe switch; figures round so that times can be summed by hand.
constexpr const char* kSmall = R"({
  "name": "small", "summary": "test", "nodes": 2,
  "devices": {"gpu[0-1]": {"model": "gtx-1080-ti"}, "cpu0": {"model": "generic-cpu"}},
  "vertices": {"plx0": {"kind": "pcie_switch"}, "nic0": {"kind": "nic"}},
  "links": {"pcie": {"bandwidth": "10GB/s", "latency": "1us",
                     "between": [["gpu[0-1]", "plx0"], ["plx0", "cpu0"], ["nic0", "cpu0"]]}},
  "peer_access": {"reach": "switch"},
  "host": {"cores": 8, "core_speed": 2, "local_storage": "1GB/s", "shared_storage": "3GB/s"},
  "network": {"block": "single", "bandwidth": "1GB/s", "latency": "2us",
              "transport": {"name": "tcp", "latency": "10us", "gpudirect": "none"}},
  "communication": {"library": "nccl-2.4"}
})";

System small(const std::vector<std::pair<std::string, std::string>>& sets = {}) {
  return System::from_json(Json::parse(kSmall, "small.json"), sets);
}

Library library_with(const std::string& gpu) {
  std::string text = kSmall;
  const std::string was = "gtx-1080-ti";
  text.replace(text.find(was), was.size(), gpu);
  return library_of(
      System::from_json(Json::parse(text, "small.json"), {{"communication.library", "nccl-2.18"}}));
}

std::vector<VertexId> first(const System& system, int64_t count) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(system.accelerator(i));
  return out;
}

double seconds(LinkCost& links, const Transfer& t) { return t.alone(links.capacity()).seconds(); }

/// What nccl-tests calls the bus factor: bytes that the busiest rank must send per byte of the buffer.
double bus_factor(CollKind kind, double n) {
  switch (kind) {
    case CollKind::all_reduce:
      return 2 * (n - 1) / n;
    case CollKind::broadcast:
    case CollKind::reduce:
      return 1;
    default:
      return (n - 1) / n;
  }
}

TEST(Library, KernelsOfAFasterClockStartAndStepSooner) {
  const Library slow = library_with("a100-pcie-40gb"), fast = library_with("a40");  // 1410 and 1740 MHz
  ASSERT_EQ(slow.protocols.size(), fast.protocols.size());
  for (std::size_t p = 0; p < slow.protocols.size(); ++p) {
    const Protocol &a = slow.protocols[p], &b = fast.protocols[p];
    SCOPED_TRACE(a.name);
    EXPECT_NEAR(b.base, a.base * 1410 / 1740, 1e-12);
    EXPECT_NEAR(b.step[0], a.step[0] * 1410 / 1740, 1e-12);
    EXPECT_NEAR(b.step[1], a.step[1] * 1410 / 1740, 1e-12);
    EXPECT_EQ(b.step[2], a.step[2]) << "host memory has a clock of its own";
    EXPECT_EQ(b.step[3], a.step[3]);
  }
  EXPECT_EQ(library_with("generic").protocols[0].base, slow.protocols[0].base) << "unknown clock: as stated";
}

TEST(Library, RefusesAlgorithmsThatNobodyKnows) {
  const auto with = [](const std::string& algorithms) {
    std::string text = kSmall;
    const std::string was = "\"library\": \"nccl-2.4\"";
    text.replace(text.find(was), was.size(), was + ", \"algorithms\": " + algorithms);
    return System::from_json(Json::parse(text, "small.json"));
  };
  const System good = with("[\"tree\", \"nvls\", \"ring\"]");
  EXPECT_EQ(library_of(good).algorithms.size(), 3u);
  const System bad = with("[\"ring\", \"double-tre\"]");
  try {
    library_of(bad);
    FAIL() << "took an algorithm that does not exist";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("small.json:"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("Did you mean double-tree"), std::string::npos) << e.what();
  }
}

TEST(Message, TakesLatencyPlusBytesOverTheNarrowestLink) {
  const System s = small();
  LinkCost links(s, {});
  const Transfer t = links.message(s.accelerator(0), s.accelerator(1), {10'000'000});
  ASSERT_EQ(t.uses.size(), 2u);
  const double software = t.latency.seconds() - 2e-6;
  EXPECT_GT(software, 0);
  EXPECT_NEAR(seconds(links, t), t.latency.seconds() + 1e-3, 1e-9);
  EXPECT_EQ(seconds(links, links.message(s.accelerator(0), s.accelerator(0), {1000})), 0);
}

TEST(Message, StagedThroughTheHostCrossesLinksBothWays) {
  const System direct = small(), staged = small({{"peer_access.reach", "none"}});
  LinkCost a(direct, {}), b(staged, {});
  const Transfer t = a.message(direct.accelerator(0), direct.accelerator(1), {1'000'000});
  const Transfer u = b.message(staged.accelerator(0), staged.accelerator(1), {1'000'000});
  EXPECT_EQ(t.uses.size(), 2u);
  EXPECT_EQ(u.uses.size(), 4u);
  EXPECT_GT(u.latency.seconds(), t.latency.seconds());
}

TEST(Message, HalfDuplexDirectionsAreOneResource) {
  const System s = small({{"links.pcie.duplex", "half"}, {"peer_access.reach", "none"}});
  LinkCost links(s, {});
  const Transfer t = links.message(s.accelerator(0), s.accelerator(1), {1'000'000});
  std::set<uint32_t> seen;
  double most = 0;
  for (const Use& u : t.uses) {
    EXPECT_TRUE(seen.insert(u.link).second);
    most = std::max(most, static_cast<double>(u.weight));
  }
  EXPECT_EQ(most, 2);  // up and down the switch's one uplink
}

Overheads with_network(const std::string& library) {
  Overheads o;
  o.network = library;
  return o;
}

/// Seconds of a message from the first GPU to the CPU of the second node, without its latency.
double posted(const System& s, const std::string& library, int64_t bytes) {
  LinkCost links(s, with_network(library));
  const Transfer t = links.post(s.accelerator(0), s.host_of(s.accelerator(2)), {bytes});
  return seconds(links, t) - t.latency.seconds();
}

TEST(NetworkSoftware, ThreadsAtTheEndsAndNotTheWireBindSlowLibraries) {
  const System s = small({{"network.bandwidth", "9GB/s"}});
  const NetworkSoftware grpc = network_software("grpc", s, true);
  ASSERT_TRUE(grpc.binds());
  EXPECT_NEAR(posted(s, "", 900'000'000), 0.1, 1e-9);
  EXPECT_NEAR(posted(s, "grpc", 900'000'000), 0.9 * grpc.send * 1e9 + grpc.message, 1e-6);
  // A message has its own cost, however small.
  EXPECT_NEAR(posted(s, "grpc", 1000), 1000 * grpc.send + grpc.message, 1e-9);
  // A core of half the speed takes twice as long.
  const System slow = small({{"network.bandwidth", "9GB/s"}, {"host.core_speed", "1"}});
  EXPECT_NEAR(posted(slow, "grpc", 900'000'000) / posted(s, "grpc", 900'000'000), 2, 1e-6);
  const double handling = network_software("zeromq", s, true).handling;
  EXPECT_GT(handling, 0);
  EXPECT_EQ(network_software("zeromq", slow, true).handling, handling / 2);
}

TEST(NetworkSoftware, ProcessesHaveThreadsOfTheirOwnThatAllTheirDevicesShare) {
  const System s = small();
  LinkCost links(s, with_network("zeromq"));
  const VertexId host = s.host_of(s.accelerator(0));
  const VertexId far = s.host_of(s.accelerator(2));
  EXPECT_EQ(links.thread_of(s.accelerator(0), host), links.thread_of(s.accelerator(1), host));
  EXPECT_EQ(links.thread_of(s.accelerator(0), host), links.thread_of(s.accelerator(0), far));
  EXPECT_NE(links.thread_of(s.accelerator(0), host), links.thread_of(s.accelerator(2), host));
  EXPECT_NE(links.thread_of(s.accelerator(0), host), links.thread_of(host, s.accelerator(0)));
  EXPECT_EQ(links.resource_name(links.thread_of(s.accelerator(0), far)),
            "ZeroMQ I/O thread of node0's worker");
  EXPECT_EQ(links.resource_name(links.thread_of(host, far)), "ZeroMQ I/O thread of node0's server");
}

TEST(NetworkSoftware, CostsNothingWhereTheNicMovesTheBytes) {
  const System tcp = small({{"network.bandwidth", "9GB/s"}}),
               rdma = small({{"network.bandwidth", "9GB/s"}, {"network.transport.name", "rdma"}});
  EXPECT_GT(posted(tcp, "byteps", 900'000'000), 0.2);
  EXPECT_NEAR(posted(rdma, "byteps", 900'000'000), 0.1, 1e-9);
  EXPECT_GT(posted(rdma, "grpc", 900'000'000), 0.5);  // knows no verbs
}

TEST(NetworkSoftware, SocketsOfACollectiveAreFedByOneThreadOfEachRankAtTheEnds) {
  const System tcp = small({{"network.bandwidth", "90GB/s"}, {"links.pcie.bandwidth", "90GB/s"}});
  LinkCost links(tcp, {});
  const double size = 1e9;
  const Transfer t =
      links.collective(CollKind::all_reduce, "ring", {static_cast<int64_t>(size)}, first(tcp, 4));
  const double sent = 2 * 3.0 / 4 * size;  // by every member
  EXPECT_NEAR(seconds(links, t) - t.latency.seconds(), sent * network_software("nccl", tcp, true).send, 1e-3);
  std::set<std::string> threads;
  for (const Use& u : t.uses) {
    const std::string name = links.resource_name(u.link);
    if (name.starts_with("NCCL proxy thread")) threads.insert(name);
  }
  EXPECT_EQ(threads.size(), 4);  // one sends and one receives on each of two nodes
  const System rdma = small({{"network.transport.name", "rdma"}});
  LinkCost verbs(rdma, {});
  for (const Use& u : verbs.collective(CollKind::all_reduce, "ring", {1 << 20}, first(rdma, 4)).uses)
    EXPECT_FALSE(verbs.resource_name(u.link).starts_with("NCCL proxy thread"));
}

TEST(NetworkSoftware, UnknownLibrariesAreRefusedWithTheKnownOnes) {
  const System s = small();
  try {
    LinkCost links(s, with_network("grcp"));
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("grpc"), std::string::npos);
  }
}

TEST(Input, IsReadDecodedAndCopiedAtTheRateOfEachStage) {
  const System s = small();
  LinkCost links(s, {});
  const VertexId to = s.accelerator(0);
  const auto rate = [&](const Transfer& t) { return 1000 / (seconds(links, t) - t.latency.seconds()); };
  EXPECT_NEAR(rate(links.decode(to, {600'000'000}, 1000 * 0.01, 0)), 8 * 2 / 0.01, 1);  // 8 cores of speed 2
  EXPECT_NEAR(rate(links.decode(to, {600'000'000}, 1000 * 0.01, 3)), 3 * 2 / 0.01, 1);
  EXPECT_NEAR(rate(links.read(to, {.samples = 1000, .bytes = 1e6, .staged = true})), 1000,
              1e-2);                                                  // 1 GB/s local storage
  EXPECT_NEAR(rate(links.input(to, {1'000'000'000})), 10'000, 1e-1);  // 10 GB/s to the device
  EXPECT_EQ(links.read(to, {.samples = 1000, .bytes = 1e6, .missed = 0}).bytes, 0) << "all in the page cache";
}

TEST(Input, ReadsAsManyFilesAsOperationsMetadataAndWaitingThreadsAllow) {
  const System s = small(
      {{"host.local_operations", "2000"}, {"host.local_metadata", "500"}, {"host.local_latency", "1ms"}});
  LinkCost links(s, {});
  const auto rate = [&](LinkCost::Read read) {
    const Transfer t = links.read(s.accelerator(0), read);
    return read.samples / seconds(links, t);
  };
  const double ahead = 128 << 10;
  LinkCost::Read read{1000, 100e3, true, true, 1, 64};
  EXPECT_NEAR(rate(read), 500, 0.1) << "a file is opened";
  read.files = false;
  EXPECT_NEAR(rate(read), 2000 * ahead / 100e3, 1) << "records are read one behind the other";
  read.files = true;
  read.bytes = 10 * ahead;
  EXPECT_NEAR(rate(read), 200, 0.1) << "ten operations a file";
  read.bytes = 1e3;
  read.threads = 0.5;
  EXPECT_NEAR(rate(read), 0.5 / 2e-3, 0.1) << "each waits twice for a file";
  read.missed = 0.25;
  EXPECT_NEAR(rate(read), 4 * 0.5 / 2e-3, 0.1) << "three of four are in the page cache";
}

TEST(Collective, IsFreeForOneMemberOrNoBytes) {
  const System s = small();
  LinkCost links(s, {});
  for (const CollKind kind : {CollKind::all_reduce, CollKind::all_to_all, CollKind::broadcast}) {
    EXPECT_EQ(seconds(links, links.collective(kind, "auto", {1 << 20}, first(s, 1))), 0);
    EXPECT_EQ(seconds(links, links.collective(kind, "auto", {0}, first(s, 4))), 0);
  }
}

TEST(Collective, NamesWhatItChoseAndRefusesWhatItCannot) {
  const System s = System::load("dgx-a100");
  LinkCost links(s, {});
  LinkCost::Choice choice;
  links.collective(CollKind::all_reduce, "auto", {64 << 20}, first(s, 8), &choice);
  EXPECT_EQ(choice.algorithm, "ring");
  EXPECT_EQ(choice.protocol, "simple");
  links.collective(CollKind::all_reduce, "auto", {256}, first(s, 8), &choice);
  EXPECT_EQ(choice.protocol, "ll");
  EXPECT_THROW(links.collective(CollKind::all_reduce, "rign", {1000}, first(s, 8)), InputError);
  EXPECT_THROW(links.collective(CollKind::all_to_all, "ring", {1000}, first(s, 8)), InputError);
  EXPECT_THROW(links.collective(CollKind::all_reduce, "nvls", {1000}, first(s, 8)), InputError);
}

TEST(Collective, ReducesInTheSwitchFromHopperOn) {
  const System s = System::load("dgx-h100");
  LinkCost links(s, {});
  LinkCost::Choice choice;
  links.collective(CollKind::all_reduce, "auto", {512 << 20}, first(s, 8), &choice);
  EXPECT_EQ(choice.algorithm, "nvls");
  links.collective(CollKind::all_reduce, "auto", {512 << 20}, first(s, 2), &choice);
  EXPECT_EQ(choice.algorithm, "ring");
  links.collective(CollKind::all_reduce, "auto", {64 << 10}, first(s, 8), &choice);
  EXPECT_EQ(choice.protocol, "ll");
}

// On every machine, for every kind and algorithm: more bytes take longer, and no rank sends faster than its
// links.
class Laws : public testing::TestWithParam<const char*> {};

TEST_P(Laws, HoldForAllAlgorithms) {
  const System s = System::load(GetParam());
  LinkCost links(s, {});
  std::vector<std::string> names = collectives_registry().names();
  names.emplace_back("auto");
  const int64_t most = std::min<int64_t>(s.accelerator_count(), 24);
  for (const int64_t n : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{8}, most}) {
    if (n > most) continue;
    const auto members = first(s, n);
    // A rank's ways out, all of them together: no collective beats these (but the switch's own reduction).
    double out = 0;
    std::set<uint32_t> seen;
    for (const VertexId b : members) {
      if (b == members[0]) continue;
      const LinkId l = s.route(members[0], b).links.front();
      if (seen.insert(resource_of(s, l)).second) out += s.usable(l);
    }
    for (int k = 0; k < kCollKinds; ++k) {
      const auto kind = static_cast<CollKind>(k);
      for (const std::string& name : names) {
        double before = 0;
        for (const int64_t bytes :
             {int64_t{1}, int64_t{5000}, int64_t{3} << 20, int64_t{1} << 28, int64_t{1} << 32}) {
          LinkCost::Choice choice;
          double t = 0;
          try {
            t = seconds(links, links.collective(kind, name, {bytes}, members, &choice));
          } catch (const InputError&) {
            EXPECT_NE(name, "auto");
            continue;
          }
          ASSERT_TRUE(std::isfinite(t)) << name;
          EXPECT_GE(t, before) << GetParam() << " " << name << " " << n;
          EXPECT_GT(t, 0);
          before = t;
          if (choice.algorithm == "nvls") continue;
          const double sent = static_cast<double>(bytes) * bus_factor(kind, static_cast<double>(n));
          EXPECT_LE(sent / t, out * 1.0001)
              << GetParam() << " " << name << " " << schemes::name(kind) << " x" << n;
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Systems, Laws,
                         testing::Values("dgx1-v100", "dgx-a100", "dgx-h100", "v100-pcie-8x", "p2.8xlarge",
                                         "lisa-1080ti", "hkbu-rdma", "mi300x-8x", "skylake-opa", "tpu-v3-pod",
                                         "z10pe-2x1080ti"));

double bus_bandwidth(const std::string& system, int64_t n, int64_t bytes = int64_t{1} << 30,
                     const std::vector<std::pair<std::string, std::string>>& sets = {}) {
  const System s = System::load(system, sets);
  LinkCost links(s, {});
  const double t = seconds(links, links.collective(CollKind::all_reduce, "auto", {bytes}, first(s, n)));
  return static_cast<double>(bytes) * bus_factor(CollKind::all_reduce, static_cast<double>(n)) / t / 1e9;
}

TEST(RingSearch, FillsTheHybridCubeMesh) {
  // NCCL on DGX-1: about 130 GB/s (V100, six cables each), 62 and 52 GB/s (P100, eight and four GPUs; Tartan
  // suite).
  EXPECT_NEAR(bus_bandwidth("dgx1-v100", 8), 130, 13);
  EXPECT_NEAR(bus_bandwidth("dgx1-p100", 8), 62, 6);
  EXPECT_NEAR(bus_bandwidth("dgx1-p100", 4), 52, 7);
}

TEST(RingSearch, IsNotWhatNccl1Does) {
  // One ring in the order of the ranks, which on eight GPUs of a DGX-1 leaves the cables twice (Tartan
  // suite).
  const auto nccl_1 = [](int64_t n) {
    return bus_bandwidth("dgx1-p100", n, int64_t{1} << 30, {{"communication.library", "nccl-1"}});
  };
  EXPECT_NEAR(nccl_1(4), 14.25, 1.5);
  EXPECT_NEAR(nccl_1(8), 7.58, 0.8);
}

TEST(RingSearch, SharesAddUpAndVisitEveryMember) {
  const System s = System::load("dgx1-v100");
  for (const int64_t n : {2, 3, 5, 8}) {
    const auto rings = search_rings(s, make_group(s, first(s, n)), true);
    double sum = 0;
    for (const Ring& r : rings) {
      EXPECT_EQ(std::set<uint32_t>(r.order.begin(), r.order.end()).size(), static_cast<std::size_t>(n));
      sum += r.share;
    }
    EXPECT_NEAR(sum, 1, 1e-9);
  }
}

/// Every hop of every ring counted on the links of its route.
std::map<LinkId, double> counted_crossings(const System& s, int64_t n) {
  std::map<LinkId, double> out;
  const Group group = make_group(s, first(s, n));
  for (const Ring& ring : search_rings(s, group, library_of(s).packs_rings)) {
    for (std::size_t i = 0; i < ring.order.size(); ++i) {
      const VertexId from = group.by_node[0][ring.order[i]];
      const VertexId to = group.by_node[0][ring.order[(i + 1) % ring.order.size()]];
      for (const LinkId l : s.route(from, to).links) {
        out[l] += ring.share;
        out[s.reverse(l)] += ring.share;
      }
    }
  }
  return out;
}

TEST(Crossings, AreThoseOfEveryHopOfTheRings) {
  for (const char* name : {"v100-pcie-8x", "dgx1-v100", "dgx1-p100", "4090-pcie-8x"}) {
    const System s = System::load(name);
    LinkCost links(s, {});
    for (const CollKind kind : {CollKind::all_reduce, CollKind::all_gather, CollKind::broadcast}) {
      auto counted = counted_crossings(s, 8);
      ASSERT_FALSE(counted.empty());
      for (LinkId l = 0; l < s.link_count(); ++l)
        EXPECT_NEAR(links.crossings(kind, "ring", {1 << 20}, first(s, 8), l), counted[l], 1e-9) << name << l;
    }
  }
}

TEST(Crossings, CountBothWaysOfHalfDuplexLinks) {
  const System s = System::load("v100-pcie-8x", {{"links.pcie.duplex", "half"}});
  LinkCost links(s, {});
  auto counted = counted_crossings(s, 8);
  for (LinkId l = 0; l < s.link_count(); ++l)
    EXPECT_NEAR(links.crossings(CollKind::all_reduce, "ring", {1 << 20}, first(s, 8), l), counted[l], 1e-9);
}

TEST(Crossings, AreOfRingsAlone) {
  const System s = System::load("dgx-h100");
  LinkCost links(s, {});
  const LinkId port = s.route(s.accelerator(0), s.accelerator(1)).links.front();
  EXPECT_GT(links.crossings(CollKind::all_reduce, "ring", {1 << 28}, first(s, 8), port), 0);
  EXPECT_EQ(links.crossings(CollKind::all_reduce, "nvls", {1 << 28}, first(s, 8), port), 0);
  EXPECT_EQ(links.crossings(CollKind::all_reduce, "halving-doubling", {1 << 28}, first(s, 8), port), 0);
  EXPECT_EQ(links.crossings(CollKind::all_reduce, "ring", {1 << 28}, first(s, 1), port), 0);
}

TEST(RingSearch, UsesEveryNicOfANode) {
  const System s = System::load("dgx-a100", {{"nodes", "2"}});
  EXPECT_EQ(search_rings(s, make_group(s, first(s, 16)), true).size(), 8u);
  EXPECT_GT(bus_bandwidth("dgx-a100", 16, int64_t{1} << 32, {{"nodes", "2"}}),
            150);  // eight ports of 23 GB/s
}

TEST(Collective, RepresentativeNodesPriceAsAllNodesDo) {
  for (const char* algorithm : {"ring", "double-tree"}) {
    const System s = System::load("dgx-a100", {{"nodes", "160"}});
    LinkCost links(s, {});
    const auto time = [&](int64_t n) {
      return seconds(links, links.collective(CollKind::all_reduce, algorithm, {1 << 28}, first(s, n)));
    };
    const double whole = time(1016), part = time(1032);  // the limit lies between
    EXPECT_NEAR(part / whole, 1, 0.03) << algorithm;
  }
}

TEST(Collective, SchedulesAreExtrapolatedSmoothly) {
  const System s = System::load("dgx-a100", {{"nodes", "128"}});
  LinkCost links(s, {});
  for (const char* name : {"halving-doubling", "hierarchical", "tree"}) {
    const auto time = [&](int64_t n) {
      return seconds(links, links.collective(CollKind::all_reduce, name, {1 << 26}, first(s, n)));
    };
    const double a = time(128), b = time(256), c = time(512);
    EXPECT_GT(c, b * 0.99) << name;
    EXPECT_LT(c - b, 3 * std::max(b - a, 0.02 * b)) << name;
  }
}

TEST(Collective, PricesAHundredThousandRanksQuickly) {
  const System s = System::load("infiniband-cluster", {{"nodes", "12500"}});
  const auto members = first(s, s.accelerator_count());
  ASSERT_GE(members.size(), 12500u);
  LinkCost links(s, {});
  const auto start = std::chrono::steady_clock::now();
  for (int64_t bytes = 1 << 20; bytes < 20 << 20; bytes += 1 << 20) {
    EXPECT_GT(seconds(links, links.collective(CollKind::all_reduce, "auto", {bytes}, members)), 0);
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 2);
}

TEST(Collective, LibraryOfTheSystemDecides) {
  const auto time = [&](const char* library) {
    const System s = System::load("dgx-a100", {{"communication.library", library}});
    LinkCost links(s, {});
    return seconds(links, links.collective(CollKind::all_reduce, "auto", {256 << 10}, first(s, 2)));
  };
  EXPECT_GT(time("nccl-2.0"), time("nccl-2.27"));  // LL128 came in between
  EXPECT_THROW(time("ncll-2.8"), InputError);
  for (const char* version : {"nccl-two", "nccl-2.x", "nccl-2x18"})
    EXPECT_THROW(time(version), InputError) << version;
}

/// Nine of ten within: closest where machines of the generation were measured, wider where none was, widest
/// where copies go through host memory, whose rate depends on the box.
TEST(Spread, IsWiderForWhatNoFitHasSeen) {
  const auto spread = [](const char* name, const char* nodes, int64_t devices, int64_t bytes = 64 << 10) {
    const System s = System::load(name, {{"communication.library", "nccl-2.28"}, {"nodes", nodes}});
    LinkCost links(s, {});
    std::vector<VertexId> members;
    for (int64_t i = 0; i < devices; ++i) members.push_back(s.accelerator(i));
    LinkCost::Choice choice;
    links.collective(CollKind::all_reduce, "auto", {bytes}, members, &choice);
    return choice.spread;
  };
  const double seen = spread("dgx-h100", "1", 8), unseen = spread("dgx2", "1", 8);
  EXPECT_GT(seen, 0);
  EXPECT_GT(unseen, seen);
  EXPECT_GT(spread("l40s-pcie-8x", "1", 8), unseen);
  EXPECT_GT(spread("dgx-h100", "2", 16), seen);
  const int64_t small = 1 << 20;  // the largest that counts as small
  EXPECT_EQ(spread("dgx-h100", "1", 8, small), seen);
  EXPECT_EQ(spread("l40s-pcie-8x", "1", 8, small), spread("l40s-pcie-8x", "1", 8));
  EXPECT_NE(spread("l40s-pcie-8x", "1", 8, small + 1), spread("l40s-pcie-8x", "1", 8));
}

/// Rings of so many nodes of eight: (all sequential steps, bytes that each rank's node sends to others).
std::pair<double, double> ring_of(int64_t nodes, CollKind kind) {
  const System s = System::load("dgx-h100", {{"nodes", std::to_string(nodes)}});
  const auto members = first(s, 8 * nodes);
  const Group group = make_group(s, members);
  Ring ring;
  for (uint32_t i = 0; i < 8; ++i) ring.order.push_back(i);
  const Pattern p = ring_pattern(s, group, kind, {ring}, false);
  double steps = 0, sent = 0;
  for (const double c : p.steps) steps += c;
  for (const auto& [v, ends] : p.ends) sent = std::max(sent, ends.sent);
  return {steps, sent};
}

TEST(Rings, OfManyNodesAreThoseOfFewerContinued) {
  for (const CollKind kind : {CollKind::all_reduce, CollKind::all_gather, CollKind::broadcast}) {
    // One node more than is enumerated hop by hop, and one less.
    for (const int64_t nodes : {int64_t{kEnumeratedRanks / 8} - 1, int64_t{kEnumeratedRanks / 8} + 1}) {
      const auto n = static_cast<double>(8 * nodes);
      const auto [steps, sent] = ring_of(nodes, kind);
      EXPECT_NEAR(steps, kind == CollKind::all_reduce ? 2 * (n - 1) : n - 1, 1e-6 * n) << nodes;
      EXPECT_NEAR(sent, bus_factor(kind, n), 1e-9) << nodes;
    }
  }
}

}  // namespace
}  // namespace tandem::tests

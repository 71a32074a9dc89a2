// SPDX-License-Identifier: Apache-2.0
// What transports between nodes do to collectives, and how grouped sends and chains run.
#include "sim/cost/link_cost.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/cost/libraries.h"
#include "sim/cost/link_profile.h"

namespace tandem::tests {
namespace {

std::vector<VertexId> first(const System& system, int64_t count) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(system.accelerator(i));
  return out;
}

double seconds(LinkCost& links, const Transfer& t) { return t.alone(links.capacity()).seconds(); }

/// Two nodes whose network is entered by `transport`.
System two_nodes(const std::string& system, const std::string& transport) {
  return System::load(system, {{"nodes", "2"}, {"network.transport.name", transport}});
}

/// Up the tree and down: a message each way, each of three trips where the receiver reads it. The latency of
/// a message from host memory holds the library's own step.
TEST(Transport, MessagesThatAreReadCrossTheNetworkThreeTimes) {
  const auto start = [](const std::string& transport) {
    const System s = two_nodes("p4d.24xlarge", transport);
    return LinkCost(s, {}).collective(CollKind::all_reduce, "double-tree", {8}, first(s, 16)).latency;
  };
  const Protocol bulk = library_of(System::load("p4d.24xlarge")).protocols.back();
  const double step = bulk.step[static_cast<std::size_t>(HopClass::network)];
  EXPECT_GT(step, 0);
  EXPECT_NEAR((start("efa-read") - start("efa")).seconds() * 1e6, 2 * (2 * 15.5 + 1e6 * step), 0.1);
}

TEST(Transport, LeavesTheLibraryWhatItCanCarry) {
  const std::map<std::string, std::set<std::string>> algorithms = {
      {"tcpx", {"ring"}}, {"tcpxo", {"ring", "double-tree"}}, {"rdma", {"ring", "double-tree", "nvls"}}};
  for (const auto& [transport, allowed] : algorithms) {
    const System s = two_nodes("dgx-h100", transport);
    LinkCost links(s, {});
    for (int64_t bytes = 8; bytes < int64_t{1} << 33; bytes *= 16) {
      LinkCost::Choice choice;
      links.collective(CollKind::all_reduce, "auto", {bytes}, first(s, 16), &choice);
      EXPECT_TRUE(allowed.contains(choice.algorithm)) << transport << " " << choice.algorithm;
      if (transport != "rdma") EXPECT_EQ(choice.protocol, "simple");
    }
  }
}

/// Chunks wait for each other: over a slow transport trees lose more than their start-up.
TEST(Transport, LatencyCostsTreesRate) {
  const auto seconds_of = [](const std::string& latency, int64_t bytes) {
    const System s = System::load("dgx-h100", {{"nodes", "2"}, {"network.transport.latency", latency}});
    LinkCost links(s, {});
    return seconds(links, links.collective(CollKind::all_reduce, "double-tree", {bytes}, first(s, 16)));
  };
  const double small = seconds_of("52us", 8) - seconds_of("2us", 8);
  const double large = seconds_of("52us", 64 << 20) - seconds_of("2us", 64 << 20);
  EXPECT_NEAR(small * 1e6, 2 * 50, 0.1);
  EXPECT_GT(large, 2 * small);
  // Long buffers have chunks that take the links longer than their share of the latency.
  EXPECT_NEAR((seconds_of("22us", int64_t{8} << 30) - seconds_of("2us", int64_t{8} << 30)) * 1e6, 2 * 20,
              0.5);
}

/// NCCL reduces in the switch for at most 32 heads, so that of 72 devices' NICs 32 send.
TEST(Transport, OnlyHeadsOfTheSwitchSendToOtherRacks) {
  const System s = System::load("gb200-nvl72", {{"nodes", "2"}});
  LinkCost links(s, {});
  const Transfer t = links.collective(CollKind::all_reduce, "nvls", {1 << 30}, first(s, 144));
  int ports = 0;
  for (const Use& use : t.uses) {
    const std::string name = links.resource_name(use.link);
    ports += name.find("nic") != std::string::npos && name.find("cpu") != std::string::npos;
  }
  EXPECT_EQ(ports, 2 * 2 * 32);  // nodes, ways
}

/// 2.22 to 2.28 allow LL its 16 KiB on each of the 32 channels of a peer, whether a message takes them or
/// not.
TEST(GroupedSends, RunUnderLlOrTheBulkProtocol) {
  for (const auto& [library, most] :
       {std::pair{"nccl-2.29.2", 16 << 10}, std::pair{"nccl-2.28.9", 512 << 10}}) {
    const System s = System::load("hgx-h200", {{"communication.library", library}});
    LinkCost links(s, {});
    LinkCost::Choice choice;
    links.collective(CollKind::all_to_all, "auto", {int64_t{8} * most}, first(s, 8), &choice);
    EXPECT_EQ(choice.protocol, "ll") << library;
    links.collective(CollKind::all_to_all, "auto", {int64_t{16} * most}, first(s, 8), &choice);
    EXPECT_EQ(choice.protocol, "simple") << library;
  }
}

/// The root of a broadcast is free for the next call while the data goes on: calls in turn take less each.
TEST(Broadcast, CallsInTurnOverlap) {
  const System s = System::load("4090-pcie-8x", {{"communication.library", "nccl-2.14"}});
  LinkCost links(s, {});
  LinkCost::Choice choice;
  const double once =
      seconds(links, links.collective(CollKind::broadcast, "auto", {1024}, first(s, 8), &choice));
  EXPECT_GT(choice.overlap, 0.5 * once);
  EXPECT_LT(choice.overlap, once);
  EXPECT_LT(links.reported(once, choice, {1, 1, 20}), links.reported(once, {}, {1, 1, 20}));
  EXPECT_EQ(links.reported(once, choice, {1, 1, 1}), links.reported(once, {}, {1, 1, 1}));
  links.collective(CollKind::all_reduce, "auto", {1024}, first(s, 8), &choice);
  EXPECT_EQ(choice.overlap, 0);
}

/// One process that launches for several devices starts their blocks late, up to NCCL 2.8: all blocks of a
/// long message, the first alone of a short one.
TEST(Launch, BlocksOfAGroupStartOneAfterAnother) {
  const auto late = [](const std::string& library, int64_t bytes, const Harness& harness) {
    const System s = System::load("dgx-a100", {{"communication.library", library}});
    LinkCost links(s, {});
    LinkCost::Choice choice;
    const double once =
        seconds(links, links.collective(CollKind::all_reduce, "auto", {bytes}, first(s, 8), &choice));
    return links.reported(once, choice, harness) - links.reported(once, {}, harness);
  };
  // 24 (NVIDIA/nccl#1225); counted by the rate on the bus, two fewer.
  EXPECT_NEAR(late("nccl-2.8", 64 << 20, {1, 8, 20}) * 1e6, 22 * 1.65, 2);
  EXPECT_EQ(late("nccl-2.8", 64 << 20, {8, 1, 20}), late("nccl-2.8", 64 << 20, {1, 8, 20}));
  EXPECT_NEAR(late("nccl-2.8", 64 << 10, {1, 8, 20}) * 1e6, 1.65, 0.01);
  EXPECT_EQ(late("nccl-2.8", 8, {1, 8, 20}), 0);
  EXPECT_EQ(late("nccl-2.8", 64 << 20, {1, 1, 20}), 0);
  EXPECT_EQ(late("nccl-2.9", 64 << 20, {1, 8, 20}), 0);
}

}  // namespace
}  // namespace tandem::tests

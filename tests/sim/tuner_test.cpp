// SPDX-License-Identifier: Apache-2.0
// NCCL's own estimate: the rates and crossovers that its constants give on known machines, against those that
// published nccl-tests tables show as jumps.
#include "sim/cost/tuner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/cost/link_cost.h"

namespace tandem::tests {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<VertexId> first(const System& system, int64_t count) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(system.accelerator(i));
  return out;
}

std::optional<Tuner> tuner(const System& system, int64_t devices, int version = 228) {
  return Tuner::of(system, make_group(system, first(system, devices)), version);
}

std::string choice(const System& system, int64_t devices, int64_t bytes) {
  LinkCost links(system, {});
  LinkCost::Choice out;
  links.collective(CollKind::all_reduce, "auto", {bytes}, first(system, devices), &out);
  return out.algorithm + " " + out.protocol;
}

using Estimate = double (Tuner::*)(CollKind, std::string_view, double) const;

/// Bytes/s of bus bandwidth that the estimate grows by.
double bus(const Tuner& t, double devices, Estimate of, const char* protocol) {
  const double a = (t.*of)(CollKind::all_reduce, protocol, 1e9);
  const double b = (t.*of)(CollKind::all_reduce, protocol, 2e9);
  return 1e9 / (b - a) * 2 * (devices - 1) / devices;
}

TEST(Tuner, CountsChannelsAsTheSearchDoes) {
  struct Case {
    const char* system;
    double ring, ll128, nvls;  // GB/s; nvls of eight devices
  };
  for (const Case& c : {Case{"dgx-a100", 240, 220.8, 0}, Case{"hgx-h200", 360, 331.2, 476},
                        Case{"h800-sxm-8x", 160, 147.2, 178.5}, Case{"dgx-b200", 720, 662.4, 828.8}}) {
    const System s = System::load(c.system);
    const auto t = tuner(s, 8);
    ASSERT_TRUE(t) << c.system;
    EXPECT_NEAR(bus(*t, 8, &Tuner::ring, "simple") * 1e-9, c.ring, 1e-6) << c.system;
    EXPECT_NEAR(bus(*t, 8, &Tuner::ring, "ll128") * 1e-9, c.ll128, 1e-6) << c.system;
    if (c.nvls > 0) {
      EXPECT_NEAR(bus(*t, 8, &Tuner::in_switch, "simple") * 1e-9, c.nvls, 1e-6) << c.system;
    } else {
      EXPECT_TRUE(std::isinf(t->in_switch(CollKind::all_reduce, "simple", 1e9)));
    }
  }
}

/// Published tables (aiconfigurator) jump between these sizes: A100 19 to 41 us, H100 15 to 28, B200 20 to 39
/// of two devices; eight go over to the switch.
TEST(Tuner, ChangesWherePublishedTablesJump) {
  struct Case {
    const char* system;
    int64_t devices, size;
    const char *at, *above;
  };
  for (const Case& c : {Case{"dgx-a100", 2, 512 * kKiB, "ring ll", "ring simple"},
                        Case{"dgx-h100", 2, kMiB, "ring ll", "ring simple"},
                        Case{"dgx-b200", 2, 2 * kMiB, "ring ll", "ring simple"},
                        Case{"hgx-h200", 8, kMiB, "ring ll", "nvls simple"},
                        Case{"dgx-b200", 8, 2 * kMiB, "ring ll", "nvls simple"},
                        Case{"gb200-nvl72", 72, 512 * kMiB, "nvls simple", "nvls simple"}}) {
    const System s = System::load(c.system, {{"communication.library", "nccl-2.28"}});
    EXPECT_EQ(choice(s, c.devices, c.size), c.at) << c.system << c.devices;
    EXPECT_EQ(choice(s, c.devices, 2 * c.size), c.above) << c.system << c.devices;
  }
}

TEST(Tuner, DependsOnTheCablesNotOnWhatTheyReach) {
  const System slow = System::load("dgx-h100");
  const System fast = System::load("dgx-h100", {{"links.nvlink.bandwidth", "250GB/s"}});
  for (const char* protocol : {"ll", "ll128", "simple"}) {
    EXPECT_EQ(tuner(slow, 8)->ring(CollKind::all_gather, protocol, 1e6),
              tuner(fast, 8)->ring(CollKind::all_gather, protocol, 1e6));
  }
}

/// Chunks of 16, 32, 64 and 128 KiB per channel and member, as src/enqueue.cc has them.
TEST(SwitchRound, GrowsWithTheBuffer) {
  constexpr double kKi = 1024, chunks = 8 * 16;
  EXPECT_EQ(switch_round(64 * kKi, 8, 16), 64 * kKi);  // no more than there is
  EXPECT_EQ(switch_round(4 * kMiB, 8, 16), chunks * 16 * kKi);
  EXPECT_EQ(switch_round(8 * kMiB, 8, 16), chunks * 32 * kKi);
  EXPECT_EQ(switch_round(64 * kMiB, 8, 16), chunks * 64 * kKi);
  EXPECT_EQ(switch_round(1024 * kMiB, 8, 16), chunks * 128 * kKi);
}

/// Two nodes of eight: depth 8, 16 channels; halved below 8 chunks per hop to 128 KiB, below 4 to 64, below 1
/// to 32.
TEST(TreeRound, GrowsWithTheBuffer) {
  constexpr double kKi = 1024, channels = 16;
  EXPECT_EQ(tree_round(64 * kKi, 8, channels), 64 * kKi);  // no more than there is
  EXPECT_EQ(tree_round(4 * kMiB, 8, channels), channels * 32 * kKi);
  EXPECT_EQ(tree_round(16 * kMiB, 8, channels), channels * 64 * kKi);
  EXPECT_EQ(tree_round(64 * kMiB, 8, channels), channels * 128 * kKi);
  EXPECT_EQ(tree_round(1024 * kMiB, 8, channels), channels * 512 * kKi);
}

TEST(Tuner, ThoughtLessOfLlBefore221) {
  const System s = System::load("dgx-h100");
  EXPECT_NEAR(bus(*tuner(s, 8, 218), 8, &Tuner::ring, "ll") * 1e-9, 87.7, 1e-6);
  EXPECT_NEAR(bus(*tuner(s, 8, 223), 8, &Tuner::ring, "ll") * 1e-9, 141, 1e-6);
}

TEST(Tuner, SpeaksOnlyForSwitchedNvlinkInsideOneNode) {
  EXPECT_FALSE(tuner(System::load("l40s-poor-host-8x"), 8));
  EXPECT_FALSE(tuner(System::load("dgx1-v100"), 8));
  EXPECT_FALSE(tuner(System::load("mi300x-8x"), 8));
  EXPECT_FALSE(tuner(System::load("dgx-h100", {{"nodes", "2"}}), 16));
  EXPECT_TRUE(tuner(System::load("dgx-h100", {{"nodes", "2"}}), 8));
}

/// An algorithm that was named but that NCCL would not pick is priced all the same.
TEST(Tuner, LeavesNamedAlgorithmsToTheirFastestProtocol) {
  const System s = System::load("dgx-h100");
  LinkCost links(s, {});
  const Transfer t = links.collective(CollKind::all_reduce, "halving-doubling", {kMiB}, first(s, 8));
  EXPECT_GT(t.alone(links.capacity()).seconds(), 0);
}

}  // namespace
}  // namespace tandem::tests

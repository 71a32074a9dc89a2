// SPDX-License-Identifier: Apache-2.0
// What holds for every machine and collective, whatever the constants are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/data.h"
#include "base/random.h"
#include "sim/cost/link_cost.h"
#include "sim/cost/link_profile.h"

namespace tandem::tests {
namespace {

constexpr const char* kSystems[] = {"dgx1-v100",    "dgx-a100",          "dgx-h100",  "dgx-b200",
                                    "v100-pcie-8x", "l40s-poor-host-8x", "mi300x-8x", "p4d.24xlarge"};
constexpr int64_t kSizes[] = {256, int64_t{64} << 10, int64_t{4} << 20, int64_t{1} << 30};

std::vector<VertexId> first(const System& system, int64_t count) {
  std::vector<VertexId> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(system.accelerator(i));
  return out;
}

double all_reduce(const System& s, const std::vector<VertexId>& members, int64_t bytes) {
  LinkCost links(s, {});
  return links.collective(CollKind::all_reduce, "auto", {bytes}, members).alone(links.capacity()).seconds();
}

/// GB/s of bus bandwidth of all eight devices.
double bus_bandwidth(const char* system) {
  const System s = System::load(system);
  return 1.75 * 0.268435456 / all_reduce(s, first(s, 8), 268435456);
}

TEST(PcieBoxes, OfOneGenerationAreEqualUnderTheirNaturalNames) {
  const double stock = bus_bandwidth("4090-pcie-8x");  // measured
  EXPECT_NEAR(bus_bandwidth("l40s-pcie-8x") / stock, 1, 0.1);
  for (const char* system : {"3090-poor-host-8x", "l40s-poor-host-8x"})
    EXPECT_LT(bus_bandwidth(system), 0.1 * stock) << system;
}

TEST(PcieBoxes, CardsWithoutPeerAccessShareWhatTheirHostReaches) {
  const System s = System::load("3090-pcie");
  const double measured[] = {4.32e-3, 8.54e-3, 12.14e-3};  // NCCL on 2, 3, 4 cards of one EPYC 7B13
  for (int64_t cards = 2; cards <= 4; ++cards)
    EXPECT_NEAR(all_reduce(s, first(s, cards), 16 << 20) / measured[cards - 2], 1, 0.06) << cards;
}

TEST(PcieBoxes, WhereHostsDifferCollectivesHaveWiderIntervals) {
  const auto spread = [](const char* staged_spread) {
    const System s = System::load("3090-pcie", {{"peer_access.staged_spread", staged_spread}});
    LinkCost links(s, {});
    LinkCost::Choice choice;
    links.collective(CollKind::all_reduce, "auto", {16 << 20}, first(s, 4), &choice);
    return std::log1p(choice.spread);
  };
  EXPECT_NEAR(spread("1.2"), std::hypot(spread("0"), 1.645 * 1.2), 1e-9);
}

class Machines : public testing::TestWithParam<const char*> {};

TEST_P(Machines, TheOrderOfTheMembersDoesNotMatter) {
  const System s = System::load(GetParam());
  const auto members = first(s, 8);
  SplitMix64 random(7);
  for (int trial = 0; trial < 4; ++trial) {
    auto shuffled = members;
    for (std::size_t i = shuffled.size() - 1; i > 0; --i)
      std::swap(shuffled[i], shuffled[random.next() % (i + 1)]);
    for (const int64_t bytes : kSizes) {
      const double a = all_reduce(s, members, bytes), b = all_reduce(s, shuffled, bytes);
      EXPECT_NEAR(b / a, 1, 1e-6) << GetParam() << " " << bytes;
    }
  }
}

TEST_P(Machines, MoreBandwidthNeverSlows) {
  const System before = System::load(GetParam());
  for (const char* kind : {"nvlink", "pcie", "socket", "xgmi"}) {
    Bandwidth rate;
    for (LinkId l = 0; l < before.link_count(); ++l) {
      if (before.link_kind(l) == kind) rate = before.link(l).bandwidth;
    }
    if (rate.bytes_per_second == 0) continue;
    // The file's figure is of one cable; ten times a merged link's is more than twice that of any cable here.
    const System after = System::load(
        GetParam(), {{std::string("links.") + kind + ".bandwidth",
                      std::to_string(static_cast<int64_t>(10 * rate.bytes_per_second / 1e9) + 1) + "GB/s"}});
    for (const int64_t n : {2, 4, 8}) {
      for (const int64_t bytes : kSizes) {
        EXPECT_LE(all_reduce(after, first(after, n), bytes),
                  all_reduce(before, first(before, n), bytes) * 1.0001)
            << GetParam() << " " << kind << " " << n << " " << bytes;
      }
    }
  }
}

TEST_P(Machines, NothingBeatsWhatTheLinksAllow) {
  const System s = System::load(GetParam());
  LinkCost links(s, {});
  for (const int64_t n : {2, 3, 4, 8}) {
    for (int k = 0; k < kCollKinds; ++k) {
      const auto kind = static_cast<CollKind>(k);
      for (const int64_t bytes : kSizes) {
        const double bound = links.least_seconds(kind, {bytes}, first(s, n));
        const double t =
            links.collective(kind, "auto", {bytes}, first(s, n)).alone(links.capacity()).seconds();
        EXPECT_GT(bound, 0);
        EXPECT_GE(t, bound * 0.9999) << GetParam() << " " << name(kind) << " " << n << " " << bytes;
      }
    }
  }
}

/// Every byte of an all-reduce leaves each device once where the switch adds up, twice (n - 1) / n where not.
TEST(LeastTime, OfASwitchIsThatOfItsPorts) {
  for (const auto& [name, factor] : {std::pair{"dgx-h100", 1.0}, std::pair{"dgx-a100", 2 * 7 / 8.0}}) {
    const System s = System::load(name);
    const Route r = s.route(s.accelerator(0), s.accelerator(1));
    const double seconds = LinkCost(s, {}).least_seconds(CollKind::all_reduce, {1 << 30}, first(s, 8));
    EXPECT_NEAR(seconds, factor * (1 << 30) / s.usable(r.links.front()), 1e-9) << name;
  }
}

TEST_P(Machines, GroupedSendsGrowWithTheirBytesAndMembers) {
  const System s = System::load(GetParam());
  LinkCost links(s, {});
  const auto time = [&](LinkCost::Exchange what, int64_t bytes, int64_t n) {
    return links.exchange(what, {bytes}, first(s, n)).alone(links.capacity()).seconds();
  };
  for (const auto what :
       {LinkCost::Exchange::gather, LinkCost::Exchange::scatter, LinkCost::Exchange::sendrecv}) {
    EXPECT_EQ(time(what, 0, 4), 0);
    EXPECT_EQ(time(what, 1 << 20, 1), 0);
    for (std::size_t i = 1; i < std::size(kSizes); ++i)
      EXPECT_GT(time(what, kSizes[i], 4), time(what, kSizes[i - 1], 4));
  }
}

constexpr double kRounding = 1e-5;  // of Time

/// Nobody waits longer for less: whatever a library's choices, time grows with bytes, on every machine.
TEST(Sizes, MoreBytesNeverTakeLess) {
  for (const std::string& name : list_data("topologies/systems")) {
    const System s = System::load(name);
    LinkCost links(s, {});
    const auto here = static_cast<int64_t>(s.accelerators().size());
    const int64_t all = s.accelerator_count();
    for (const int64_t n :
         std::set<int64_t>{2, 3, 4, here, std::min(all, 2 * here), std::min(all, 4 * here)}) {
      if (n < 2 || n > all || n > 64) continue;
      for (int k = 0; k < kCollKinds; ++k) {
        double before = 0, reported = 0;
        for (int64_t half = 0; half < 2 * 34; ++half) {
          const int64_t bytes = (int64_t{8} << (half / 2)) * (half % 2 == 0 ? 2 : 3) / 2;
          LinkCost::Choice choice;
          const double t = links.collective(static_cast<CollKind>(k), "auto", {bytes}, first(s, n), &choice)
                               .alone(links.capacity())
                               .seconds();
          const double r = links.reported(t, choice, Harness{});
          EXPECT_GE(t, before * (1 - kRounding))
              << name << " " << schemes::name(static_cast<CollKind>(k)) << " of " << n << " at " << bytes
              << " " << choice.algorithm << " " << choice.protocol;
          EXPECT_GE(r, reported * (1 - kRounding))
              << "reported: " << name << " " << schemes::name(static_cast<CollKind>(k)) << " of " << n
              << " at " << bytes;
          before = t;
          reported = r;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, Machines, testing::ValuesIn(kSystems), [](const auto& info) {
  std::string out = info.param;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return out;
});

}  // namespace
}  // namespace tandem::tests

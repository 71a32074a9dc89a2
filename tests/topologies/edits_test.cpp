// SPDX-License-Identifier: Apache-2.0
// Boards that are changed without a file: what System::Sets takes beside paths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/topologies/refusal.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Route between(const System& s, int64_t a, int64_t b) { return s.route(s.accelerator(a), s.accelerator(b)); }

TEST(Edits, BridgesAreWhatAFileWithThemHas) {
  const System file = System::load("2080ti-nvlink-8x");
  const System made = System::load("2080ti-pcie-8x", {{"bridges", "2-3,4-5,6-7"}});
  for (int64_t a = 0; a < 8; ++a) {
    for (int64_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      const Route x = between(file, a, b), y = between(made, a, b);
      EXPECT_EQ(x.staged, y.staged) << a << " to " << b;
      EXPECT_EQ(x.links.size(), y.links.size()) << a << " to " << b;
      if (x.links.size() != 1) continue;
      EXPECT_NEAR(file.usable(x.links[0]), made.usable(y.links[0]), 1) << a << " to " << b;
    }
  }
}

TEST(Edits, WithoutAKindOfLinkRoutesGoElsewhere) {
  const System made = System::load("2080ti-nvlink-8x", {{"without", "nvlink"}});
  const System file = System::load("2080ti-pcie-8x");
  EXPECT_EQ(made.link_count(), file.link_count());
  EXPECT_EQ(between(made, 2, 3).staged, 1);
  // Switches that only those cables reached go with them.
  const System dgx = System::load("dgx-a100", {{"without", "nvlink"}});
  EXPECT_TRUE(std::none_of(dgx.vertices().begin(), dgx.vertices().end(),
                           [](const Vertex& v) { return v.kind == VertexKind::nvswitch; }));
  EXPECT_GT(between(dgx, 0, 7).links.size(), 2u);
}

TEST(Edits, TakenOutAndPutInAgainIsTheSameBoard) {
  const System board = System::load("2080ti-nvlink-8x", {{"without", "nvlink"}, {"bridges", "0-1"}});
  EXPECT_EQ(between(board, 0, 1).links.size(), 1u);
  EXPECT_EQ(between(board, 2, 3).staged, 1);
}

TEST(Edits, OtherDevicesEndPeerAccessThatTheirDriverLacks) {
  EXPECT_EQ(between(System::load("a6000-pcie-8x"), 0, 1).staged, 0);
  const System made = System::load("a6000-pcie-8x", {{"device", "rtx-3090"}});
  EXPECT_EQ(made.device(made.accelerator(7)).name, "rtx-3090");
  EXPECT_EQ(between(made, 0, 1).staged, 1);
}

TEST(Edits, PlaceUsesTheseDevicesInThisOrder) {
  const System s = System::load("2080ti-nvlink-8x", {{"place", "5,4,0"}});
  ASSERT_EQ(s.accelerator_count(), 3);
  EXPECT_EQ(s.info(s.accelerator(0)).name, "gpu5");
  EXPECT_EQ(s.info(s.accelerator(2)).name, "gpu0");
  EXPECT_EQ(between(s, 0, 1).links.size(), 1u);
}

TEST(Edits, HalfTheLanesAreHalfTheBandwidthAndHalfOfWhatCopiesReach) {
  const System whole = System::load("2080ti-pcie-8x");
  const System half = System::load("2080ti-pcie-8x", {{"links.pcie.width", "x8"}});
  const Route a = between(whole, 0, 1), b = between(half, 0, 1);
  EXPECT_DOUBLE_EQ(half.usable(b.links[0]), whole.usable(a.links[0]) / 2);
  EXPECT_DOUBLE_EQ(b.cap, a.cap / 2);
}

TEST(Edits, SayWhatIsWrong) {
  EXPECT_THAT(refusal("2080ti-nvlink-8x", {{"without", "nvlnk"}}), HasSubstr("Did you mean nvlink?"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"bridges", "0-9"}}), HasSubstr("those of a node are 0 to 7"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"bridges", "0-1,1-2"}}), HasSubstr("gpu1 has an NVLink already"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"bridges", "3-3"}}), HasSubstr("joins two cards"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"bridges", "3"}}), HasSubstr("not a pair of devices"));
  EXPECT_THAT(refusal("4090-pcie-8x", {{"bridges", "0-1"}}), HasSubstr("no connector for an NVLink bridge"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"device", "rtx-3091"}}), HasSubstr("rtx-3090"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"device", "epyc-7742"}}), HasSubstr("processor"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"place", "1,1"}}), HasSubstr("named twice"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"place", "8"}}), HasSubstr("0 to 7"));
  EXPECT_THAT(refusal("2080ti-pcie-8x", {{"links.pcie.width", "x7"}}), HasSubstr("x16, x8"));
}

}  // namespace
}  // namespace tandem::tests

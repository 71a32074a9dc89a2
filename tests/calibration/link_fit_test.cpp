// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/link_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

/// Bytes/s of one flow between two accelerators, as `show system` lists it.
double rate(const System& system, int64_t a, int64_t b) {
  const Route route = system.route(system.accelerator(a), system.accelerator(b));
  double out = route.cap > 0 ? route.cap : 1e300;
  for (const LinkId link : route.links) out = std::min(out, system.usable(link));
  return out;
}

Json box(const std::string& name, const std::string& reach) {
  return System::document(name, {{"peer_access.reach", reach}});
}

LinkTests both(double access, double peer, double staged) {
  LinkTests t;
  t.access = {{0, access}, {access, 0}};
  t.peer = {{0, peer}, {peer, 0}};
  t.staged = {{0, staged}, {staged, 0}};
  return t;
}

std::string joined(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += note + "\n";
  return out;
}

TEST(LinkFit, APairOfWhichNothingTellsItsAccessCountsForEveryReach) {
  for (const LinkTests& t : {both(0, 3.3e9, 0), both(0, 0, 3.3e9)}) {
    for (const char* reach : {"none", "switch", "host_bridge", "system"}) {
      SCOPED_TRACE(reach);
      std::vector<std::string> notes;
      const Json first = fit_links(t, box("workstation-2x", reach), notes).document;
      EXPECT_NEAR(rate(System::from_json(first), 0, 1), 3.3e9, 1e6);
      // Reach set before or after, the same.
      const Json after = fit_links(t, System::document("workstation-2x", {}), notes).document;
      EXPECT_NEAR(rate(System::from_json(after, {{"peer_access.reach", reach}}), 0, 1), 3.3e9, 1e6);
    }
  }
}

TEST(LinkFit, MeasuredAccessThatTheFileDoesNotExpectChangesItsReach) {
  std::vector<std::string> notes;
  const Json document = fit_links(both(1, 11e9, 6e9), box("workstation-2x", "none"), notes).document;
  EXPECT_EQ(document.at("peer_access").text("reach", ""), "host_bridge");
  EXPECT_NEAR(rate(System::from_json(document), 0, 1), 11e9, 1e7);
  EXPECT_NEAR(rate(System::from_json(document, {{"peer_access.reach", "none"}}), 0, 1), 6e9, 1e7);
  EXPECT_THAT(joined(notes), HasSubstr("2 pairs have peer access that workstation-2x does not expect: "
                                       "peer_access.reach: none -> host_bridge"));
}

TEST(LinkFit, AccessThatTheDevicesLackChangesItToo) {
  std::vector<std::string> notes;
  const Json document = fit_links(both(-1, 5e9, 6e9), box("workstation-2x", "system"), notes).document;
  EXPECT_NE(document.at("peer_access").text("reach", ""), "system");
  const System system = System::from_json(document);
  EXPECT_EQ(system.route(system.accelerator(0), system.accelerator(1)).staged, 1);
  EXPECT_NEAR(rate(system, 0, 1), 6e9, 1e7);
  EXPECT_THAT(joined(notes), HasSubstr("2 pairs lack the peer access that workstation-2x expects"));
}

TEST(LinkFit, AReachThatIsTheLibrarysStaysWhereBothWaysWereMeasured) {
  std::vector<std::string> notes;
  const Json document = fit_links(both(1, 11e9, 6e9), box("workstation-2x", "switch"), notes).document;
  EXPECT_EQ(document.at("peer_access").text("reach", ""), "switch");
  EXPECT_NEAR(rate(System::from_json(document), 0, 1), 6e9, 1e7);
  EXPECT_THAT(joined(notes), HasSubstr("leaves unused"));
}

TEST(LinkFit, FasterThanTheFileAllowsIsNotCutDown) {
  std::vector<std::string> notes;
  const Json document = fit_links(both(1, 15e9, 15e9), box("workstation-2x", "host_bridge"), notes).document;
  for (const char* reach : {"none", "host_bridge"})
    EXPECT_NEAR(rate(System::from_json(document, {{"peer_access.reach", reach}}), 0, 1), 15e9, 1e7) << reach;
}

TEST(LinkFit, SocketsHaveFiguresOfTheirOwn) {
  LinkTests t;
  t.staged.assign(8, std::vector<double>(8, 0));
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) t.staged[i][j] = i == j ? 0 : i / 4 == j / 4 ? 9e9 : 4e9;
  }
  std::vector<std::string> notes;
  const Json document = fit_links(t, System::document("4090-pcie-8x", {}), notes).document;
  EXPECT_NEAR(rate(System::from_json(document), 0, 1), 9e9, 1e7);
  EXPECT_NEAR(rate(System::from_json(document), 0, 7), 4e9, 1e7);
  EXPECT_EQ(joined(notes), "");
}

TEST(LinkFit, PairsFarFromTheirMedianHaveFiguresOfTheirOwn) {
  LinkTests t;
  t.access = {{0, -1, -1}, {-1, 0, -1}, {-1, -1, 0}};
  t.staged = {{0, 6.3e9, 6.3e9}, {6.3e9, 0, 13e9}, {6.3e9, 13e9, 0}};
  std::vector<std::string> notes;
  const Json document = fit_links(t, System::document("rtx-4090-3x", {}), notes).document;
  EXPECT_THAT(joined(notes), HasSubstr("peer_access.staged_pairs: 2 pairs"));
  const System system = System::from_json(document);
  EXPECT_NEAR(rate(system, 0, 1), 6.3e9, 1e7);
  EXPECT_NEAR(rate(system, 1, 2), 13e9, 1e7);
  // A cable that is slower than its sisters.
  LinkTests cables;
  cables.access.assign(8, std::vector<double>(8, 1));
  cables.peer.assign(8, std::vector<double>(8, 250e9));
  for (std::size_t i = 0; i < 8; ++i) cables.access[i][i] = cables.peer[i][i] = 0;
  cables.peer[2][5] = 90e9;
  const System a100 = System::from_json(fit_links(cables, System::document("dgx-a100", {}), notes).document);
  EXPECT_NEAR(rate(a100, 2, 5), 90e9, 1e8);
  EXPECT_NEAR(rate(a100, 5, 2), 250e9, 1e9);
}

TEST(LinkFit, CablesWithoutAccessAreRefused) {
  std::vector<std::string> notes;
  EXPECT_THROW(fit_links(both(-1, 9e9, 0), System::document("dgx-a100", {}), notes), InputError);
}

TEST(LinkFit, MoreThanTheNominalBandwidthIsNamed) {
  std::vector<std::string> notes;
  const auto fits = fit_links(both(1, 400e9, 0), System::document("dgx-a100", {}), notes).fits;
  ASSERT_EQ(fits.size(), 1u);
  EXPECT_EQ(fits[0].path, "links.nvlink.achieved");
  EXPECT_EQ(fits[0].after, 1);
  EXPECT_THAT(joined(notes), HasSubstr("133 %"));
}

TEST(LinkFit, DevicesAreOrderedByTheirBuses) {
  LinkTests t;
  t.devices = {"slow", "a", "b"};
  t.buses = {6 << 16, 1 << 16, 2 << 16};
  t.staged = {{0, 1, 2}, {3, 0, 4}, {5, 6, 0}};
  std::vector<std::string> notes;
  order_by_bus(t, notes);
  EXPECT_EQ(t.devices, (std::vector<std::string>{"a", "b", "slow"}));
  EXPECT_EQ(t.staged, (PairMatrix{{0, 4, 3}, {6, 0, 5}, {1, 2, 0}}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("1,2,0"));
  order_by_bus(t, notes);
  EXPECT_EQ(notes.size(), 1u);
}

TEST(LinkFit, WhatSaysNothingOfTheSystemIsRefused) {
  std::vector<std::string> notes;
  LinkTests none, big;
  none.access = {{0, 1}, {1, 0}};
  EXPECT_THROW(fit_links(none, System::document("workstation-2x", {}), notes), InputError);
  big.to_device.assign(9, 1e10);
  EXPECT_THROW(fit_links(big, System::document("workstation-2x", {}), notes), InputError);
}

}  // namespace
}  // namespace tandem::tests

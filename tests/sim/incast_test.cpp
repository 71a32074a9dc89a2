// SPDX-License-Identifier: Apache-2.0
// Rounds of many senders into one port: the formula alone.
#include "sim/cost/incast.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::tests {
namespace {

constexpr double kSegment = 1500, kGigabit = 125e6;

/// A port of 1 Gbit/s, RTT 100 us, whose buffer holds so many segments.
IncastPort port(double segments, double mark = 0, Time min_rto = Time::from_seconds(0.2)) {
  PacketLoss loss;
  loss.kind = PacketLoss::Kind::tcp;
  loss.segment = {1500};
  loss.buffer = {static_cast<int64_t>(segments * kSegment)};
  loss.min_rto = min_rto;
  loss.initial_window = 10;
  loss.mark = {static_cast<int64_t>(mark * kSegment)};
  return {kGigabit, 1e-4, loss};
}

/// Segments that buffer and wire hold.
double places(const IncastPort& p) {
  return (static_cast<double>(p.loss.buffer.n) + p.rate * p.rtt) / kSegment;
}

TEST(Incast, NobodyWaitsWhereTheBufferHoldsEverything) {
  for (const double senders : {2.0, 7.0, 64.0, 1000.0}) {
    const IncastPort p = port(1000);
    const double most = places(p) * kSegment / senders;
    const Incast fits = incast(p, senders, most * 0.999);
    EXPECT_EQ(fits.timeouts, 0) << senders;
    EXPECT_DOUBLE_EQ(fits.goodput(), 1) << senders;
    EXPECT_DOUBLE_EQ(fits.seconds, senders * most * 0.999 / kGigabit);
  }
  EXPECT_GT(incast(port(100), 64, 1e6).timeouts, 0);
}

TEST(Incast, IsTheBinomialOfFastRetransmission) {
  // Ten senders of two segments each on ten places, none of them on the wire: one of both is lost or none.
  IncastPort p = port(10);
  p.rtt = 0;
  const double waits = 1 - 0.25;
  EXPECT_NEAR(incast(p, 10, 2 * kSegment).suffering, 1 - std::pow(1 - waits, 10), 1e-12);
  // Two senders with room for eight each send sixteen: half are lost, and of sixteen at most two arrive.
  p = port(16);
  p.rtt = 0;
  const double q = (1 + 16 + 120) / std::pow(2.0, 16);
  EXPECT_NEAR(incast(p, 2, 1000 * kSegment).suffering, 1 - (1 - q) * (1 - q), 1e-12);
}

TEST(Incast, CollapsesAsOneTimeoutARoundSays) {
  for (const double senders : {20.0, 40.0, 100.0}) {
    for (const double bytes : {25e3, 256e3, 4e6}) {
      for (const double rto : {0.2, 0.01}) {
        const IncastPort p = port(32, 0, Time::from_seconds(rto));
        const Incast r = incast(p, senders, bytes);
        const double block = senders * bytes, held = places(p) * kSegment;
        ASSERT_GE(r.timeouts, 1) << senders << " " << bytes;
        EXPECT_LE(r.goodput(), block / kGigabit / (block / kGigabit + rto) + 1e-12);
        // Between two timeouts at least what buffer and wire hold gets through.
        EXPECT_GE(r.goodput(), held / kGigabit / (held / kGigabit + rto) - 1e-12);
        EXPECT_NEAR(r.seconds, r.ideal + r.timeouts * rto, 1e-12);
      }
    }
  }
}

TEST(Incast, NeverGrowsWithTheBufferNorShrinksWithSenders) {
  for (const double bytes : {3e3, 20e3, 256e3, 8e6}) {
    for (const double mark : {0.0, 4.0}) {
      double above = INFINITY;
      for (double segments = 4; segments < 5000; segments *= 1.07) {
        const double now = incast(port(segments, mark), 40, bytes).timeouts;
        EXPECT_LE(now, above + 1e-9) << segments << " segments, " << bytes << " bytes, mark " << mark;
        above = now;
      }
      double below = 0;
      for (double senders = 2; senders < 2000; senders *= 1.05) {
        const double now = incast(port(100, mark), senders, bytes).timeouts;
        EXPECT_GE(now, below - 1e-9) << senders << " senders, " << bytes << " bytes, mark " << mark;
        below = now;
      }
    }
  }
}

TEST(Incast, MarksWaitForTheLeastWindows) {
  // Two segments from each sender fit, or they do not.
  const IncastPort p = port(67, 20);
  EXPECT_EQ(incast(p, std::floor(places(p) / 2), 1e6).timeouts, 0);
  EXPECT_GT(incast(p, std::floor(places(p) / 2) + 1, 1e6).timeouts, 0.1);
}

TEST(Incast, MarksAboveASeventhOfWhatIsUnderWayLoseNothing) {
  IncastPort p = port(4000);
  p.rate = 10 * kGigabit;
  const double in_flight = p.rate * p.rtt / kSegment;  // 83 segments
  double worst = 1;
  for (double senders = 1; senders < 200; ++senders) {
    p.loss.mark = {static_cast<int64_t>((in_flight / 7 + 1) * kSegment)};
    EXPECT_EQ(incast(p, senders, 1e9).utilisation, 1) << senders;
    p.loss.mark = {static_cast<int64_t>(in_flight / 14 * kSegment)};
    worst = std::min(worst, incast(p, senders, 1e9).utilisation);
  }
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0.9);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "base/host_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

constexpr const char* kStat =
    "cpu  47242 57877 19347 46043 296 10 194 379 5 0\n"
    "cpu0 23446 29104 8939 23964 18 5 31 195 5 0\n"
    "cpu1 23795 28773 10408 22078 278 5 163 183 0 0\n"
    "intr 582023 0 0\nctxt 717628\n";

TEST(HostLoad, ReadsProcStat) {
  HostUsage u;
  read_proc_stat(kStat, 100, u);
  EXPECT_EQ(u.processors, 2);
  EXPECT_DOUBLE_EQ(u.busy, 472.42 + 578.77 + 193.47 + 0.1 + 1.94);
  EXPECT_DOUBLE_EQ(u.stolen, 3.79);
}

TEST(HostLoad, KnowsNothingFromOtherText) {
  for (const char* text : {"", "cpu", "cpu \n", "cpu  1 2 3 4\ncpu0 1 2 3 4\n", "cpu  a b c d e f g h\n",
                           "intr 5\ncpu  1 2 3 4 5 6 7 8\ncpu0 1\n", "cpu  1 2 3 4 5 6 7 8\n"}) {
    HostUsage u;
    read_proc_stat(text, 100, u);
    EXPECT_EQ(u.processors, 0) << text;
    EXPECT_EQ(u.busy, 0) << text;
  }
}

TEST(HostLoad, ReadsTheLoadAverage) {
  EXPECT_EQ(read_load_average("25.33 17.38 8.20 28/212 16147\n"), 25.33);
  for (const char* text : {"", "25.33", "x 1 2", "\n1 2 3"}) EXPECT_EQ(read_load_average(text), -1) << text;
}

/// Ten seconds of two processors.
HostUsage usage(double busy, double stolen, double own, int64_t preempted) {
  HostUsage u;
  u.processors = 2;
  u.busy = 100 + busy;
  u.stolen = 7 + stolen;
  u.own = 3 + own;
  u.preempted = 1000 + preempted;
  u.at = 50;
  u.load_average = 1.5;
  return u;
}
HostLoad after(double busy, double stolen, double own, int64_t preempted) {
  HostUsage end = usage(busy, stolen, own, preempted);
  end.at += 10;
  return load_between(usage(0, 0, 0, 0), end);
}

TEST(HostLoad, TellsOthersFromItself) {
  const HostLoad alone = after(15.5, 0.1, 15, 20);
  EXPECT_NEAR(alone.others, 0.025, 1e-12);
  EXPECT_NEAR(alone.stolen, 0.005, 1e-12);
  EXPECT_FALSE(alone.busy());
  EXPECT_EQ(busy_while(alone), "");
  EXPECT_EQ(busy_before(alone), "");
  EXPECT_FALSE(after(14.9, 0, 15, 0).busy()) << "ticks may lag behind getrusage";
}

TEST(HostLoad, SteadyLoadIsSeen) {
  const HostLoad shared = after(20, 0, 6, 1500);
  EXPECT_NEAR(shared.others, 0.7, 1e-12);
  EXPECT_NEAR(shared.preempted, 250, 1e-9);
  EXPECT_TRUE(shared.busy());
  EXPECT_THAT(busy_while(shared), HasSubstr("other programs took 70 % of 2 processors"));
  EXPECT_THAT(busy_while(shared), HasSubstr("preempted 250 times a second"));
}

TEST(HostLoad, StolenTimeIsSeen) {
  const HostLoad stolen = after(15, 1, 15, 0);
  EXPECT_TRUE(stolen.busy());
  EXPECT_THAT(busy_while(stolen), HasSubstr("the hypervisor 5 %"));
}

TEST(HostLoad, PreemptionsTellWhereTimesAreHidden) {
  HostUsage before = usage(0, 0, 0, 0), end = usage(0, 0, 10, 2000);
  before.processors = end.processors = 0;
  end.at += 10;
  const HostLoad hidden = load_between(before, end);
  EXPECT_EQ(hidden.processors, 0);
  EXPECT_TRUE(hidden.busy());
  EXPECT_THAT(busy_while(hidden), HasSubstr("preempted 200 times a second"));
  end.preempted = before.preempted + 100;
  EXPECT_FALSE(load_between(before, end).busy());
}

/// The load average remembers for minutes what has ended, such as the build of this program.
TEST(HostLoad, OnlyWhatRunsNowMakesAMachineBusyBeforehand) {
  HostLoad now = after(0.5, 0, 0, 0);
  now.load_average = 10;
  EXPECT_EQ(busy_before(now), "");
  now = after(15, 0, 0, 0);
  now.load_average = 0.1;
  EXPECT_THAT(busy_before(now), HasSubstr("other programs took"));
}

TEST(HostLoad, ThisMachineCanBeRead) {
  const HostUsage a = host_usage();
  double x = 1;
  for (int i = 0; i < 20'000'000; ++i) x = x * 1.0000001 + 1e-9;
  const HostUsage b = host_usage();
  EXPECT_GT(x, 1);
  EXPECT_GT(b.own, a.own);
  EXPECT_GE(b.at, a.at);
  EXPECT_FALSE(load_between(a, b).text().empty());
}

}  // namespace
}  // namespace tandem::tests

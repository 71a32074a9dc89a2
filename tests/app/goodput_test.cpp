// SPDX-License-Identifier: Apache-2.0
#include "answers/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::tests {
namespace {

using app::expected_times;
using app::FailingJob;
using app::FailureTimes;
using app::optimal_interval;
using app::simulated_goodput;

constexpr double kMinute = 60, kHour = 3600, kDay = 24 * kHour;

double sum(const FailureTimes& t) {
  return t.useful + t.checkpoints + t.repeated + t.restarts + t.waiting + t.fewer_nodes;
}

TEST(Goodput, OptimalIntervalsAreThePublishedOnes) {
  // Daly 2006, figures 3 to 5: a checkpoint takes 5 min.
  EXPECT_NEAR(optimal_interval(5 * kMinute, kDay) / kMinute, 117, 0.5);
  EXPECT_NEAR(optimal_interval(5 * kMinute, 6 * kHour) / kMinute, 57, 0.5);
  EXPECT_NEAR(optimal_interval(5 * kMinute, 15 * kMinute) / kMinute, 9.1, 0.05);
  // Young 1974: the square root of twice their product, where checkpoints are cheap.
  EXPECT_NEAR(optimal_interval(1, 1e8) / std::sqrt(2e8), 1, 1e-3);
  EXPECT_EQ(optimal_interval(0, kDay), 0);
  EXPECT_EQ(optimal_interval(3 * kHour, kHour), kHour);
}

TEST(Goodput, NoOtherIntervalIsMuchBetterThanTheOptimalOne) {
  for (const double checkpoint : {0.5, 30.0, 300.0, 1500.0}) {
    for (const double mtbf : {0.5 * kHour, 3 * kHour, 30 * kDay}) {
      FailingJob job{.node_mtbf = mtbf, .checkpoint = checkpoint, .restart = 300};
      const double best = optimal_interval(checkpoint, mtbf);
      job.interval = best;
      const double there = expected_times(job).useful;
      for (double factor = 0.1; factor < 10; factor *= 1.03) {
        job.interval = best * factor;
        EXPECT_LE(expected_times(job).useful, there * 1.0005) << checkpoint << " " << mtbf << " " << factor;
      }
      job.interval = best * 3;
      EXPECT_LT(expected_times(job).useful, there) << checkpoint << " " << mtbf;
    }
  }
}

TEST(Goodput, EventsGiveWhatTheCompleteModelGives) {
  for (const double mtbf : {0.5 * kHour, 3 * kHour, 2 * kDay}) {
    for (const double restart : {0.0, 300.0, 1200.0}) {
      for (const double interval : {120.0, 1200.0, 3600.0}) {
        const FailingJob job{
            .nodes = 16, .node_mtbf = 16 * mtbf, .interval = interval, .checkpoint = 60, .restart = restart};
        const double expected = expected_times(job).useful;
        EXPECT_NEAR(simulated_goodput(job, 1), expected, 0.01 * expected) << mtbf << restart << interval;
        EXPECT_NEAR(sum(expected_times(job)), 1, 1e-12);
      }
    }
  }
}

TEST(Goodput, EventsGiveWhatTheClosedFormGivesWithNodesAway) {
  for (const int64_t spares : {0, 1, 3}) {
    for (const double repair : {kHour, 12 * kHour, 2 * kDay}) {
      for (const bool elastic : {false, true}) {
        FailingJob job{.nodes = 64,
                       .node_mtbf = 64 * kDay,
                       .interval = 1800,
                       .checkpoint = 30,
                       .restart = 300,
                       .repair = repair,
                       .spares = spares};
        if (elastic) job.rates = {1, 0.98, 0.97, 0.9};
        const double expected = expected_times(job).useful;
        EXPECT_NEAR(simulated_goodput(job, 7), expected, 0.01 * expected) << spares << " " << repair;
        EXPECT_NEAR(sum(expected_times(job)), 1, 1e-12);
      }
    }
  }
}

TEST(Goodput, AJobThatWaitsForEachRepairIsThereAsOftenAsRenewalTheorySays) {
  // One node without checkpoints to speak of: up for mtbf, away for the repair.
  const FailingJob job{
      .node_mtbf = 10 * kHour, .interval = 1, .checkpoint = 0, .restart = 0, .repair = 5 * kHour};
  EXPECT_NEAR(expected_times(job).waiting, 1.0 / 3, 1e-12);
  EXPECT_NEAR(expected_times(job).useful, 2.0 / 3, 1e-4);
}

TEST(Goodput, SparesAndFewerNodesHelp) {
  FailingJob job{.nodes = 16,
                 .node_mtbf = 16 * kDay,
                 .interval = 1800,
                 .checkpoint = 30,
                 .restart = 300,
                 .repair = 6 * kHour};
  const double waits = expected_times(job).useful;
  job.spares = 1;
  const double one = expected_times(job).useful;
  job.spares = 4;
  const double many = expected_times(job).useful;
  job.repair = 0;
  job.spares = 0;
  const double at_once = expected_times(job).useful;
  EXPECT_LT(waits, one);
  EXPECT_LT(one, many);
  EXPECT_NEAR(many, at_once, 1e-4);
  job.repair = 6 * kHour;
  job.rates = {1, 15.0 / 16};
  EXPECT_GT(expected_times(job).useful, waits);
  EXPECT_LT(expected_times(job).useful, at_once);
}

TEST(Goodput, IsThatOfTheLargestPublishedRun) {
  // Llama 3 (arXiv 2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days on 16,384 GPUs,
  // "higher than 90 % effective training time".
  const double mtbf = 54 * kDay / 419;
  FailingJob job{.nodes = 2048, .node_mtbf = 2048 * mtbf, .checkpoint = 10, .restart = 10 * kMinute};
  job.interval = optimal_interval(job.checkpoint, mtbf);
  EXPECT_GT(expected_times(job).useful, 0.9);
  EXPECT_LT(expected_times(job).useful, 0.95);
}

TEST(Goodput, ExtremesAreNumbers) {
  FailingJob job{.node_mtbf = 1, .interval = 1e6, .checkpoint = 1e6, .restart = 1e6};
  EXPECT_EQ(expected_times(job).useful, 0);
  EXPECT_NEAR(sum(expected_times(job)), 1, 1e-12);
  job = {.node_mtbf = 1e15, .interval = 100, .checkpoint = 0, .restart = 0};
  EXPECT_NEAR(expected_times(job).useful, 1, 1e-9);
  EXPECT_NEAR(simulated_goodput(job, 1), 1, 1e-9);
}

TEST(Goodput, OfOneSeedIsOneNumber) {
  const FailingJob job{.node_mtbf = kHour, .interval = 600, .checkpoint = 10, .restart = 60};
  EXPECT_EQ(simulated_goodput(job, 3), simulated_goodput(job, 3));
  EXPECT_NE(simulated_goodput(job, 3), simulated_goodput(job, 4));
}

}  // namespace
}  // namespace tandem::tests

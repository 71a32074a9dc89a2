// SPDX-License-Identifier: Apache-2.0
// Reports in words.
#include "app/console/report_text.h"

#include <gtest/gtest.h>

#include "schemes/report.h"

namespace tandem::tests {
namespace {

TEST(ReportText, NamesOneSlowWorkerOrAllThatAreSlow) {
  Report r;
  r.bottleneck.resource = "compute";
  r.time_share.compute = 0.3;
  r.time_share.waiting = 0.6;
  r.waiting_for = {{"worker 3 on gpu3", 0.59}, {"worker 1 on gpu1", 0.01}};
  EXPECT_EQ(app::bound_by(r), "compute of worker 3 on gpu3, awaited for 59 % of the step");
  r.waiting_for = {{"worker 3 on gpu3", 0.35}, {"worker 1 on gpu1", 0.25}};
  EXPECT_EQ(app::bound_by(r),
            "compute of slower workers, awaited for 60 % of the step (most: worker 3 on gpu3 35 %)");
}

TEST(ReportText, OnlyStagesHaveMicroBatches) {
  Report r;
  r.batch_per_device = 32;
  r.memory_by_role = {{"master", 1, {}}, {"replica", 3, {}}};
  EXPECT_EQ(app::report_batch(r), "32 samples per device");
  r.memory_by_role = {{"stage 0", 1, {}}, {"stage 1", 1, {}}};
  EXPECT_EQ(app::report_batch(r), "32 samples per micro-batch");
}

}  // namespace
}  // namespace tandem::tests

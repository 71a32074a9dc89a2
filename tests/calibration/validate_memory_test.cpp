// SPDX-License-Identifier: Apache-2.0
// Published memory figures and their predictions.
#include "calibration/validate/validate_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "schemes/report/report.h"

namespace tandem::tests {
namespace {

/// BERT's figures need no constant of ours: tensors and rounding alone.
TEST(ValidateMemory, BertNeedsNoConstants) {
  int rows = 0;
  for (const MemoryRow& r : validate_memory()) {
    EXPECT_EQ(r.failure, "") << r.model;
    if (r.file != "hf_bert.json") continue;
    ++rows;
    EXPECT_LT(std::abs(r.error()), 0.02) << r.model << " batch " << r.batch;
  }
  EXPECT_EQ(rows, 12);
}

/// MemoryUse::kMeanError is what the table of kept-aside files prints.
TEST(ValidateMemory, RoomThatIsTooLittleIsTheMeanError) {
  double sum = 0;
  int rows = 0;
  for (const MemoryRow& r : validate_memory()) {
    if (!r.held_out || r.failure != "" || r.doubtful != "" || r.metric == "fits") continue;
    sum += std::abs(r.error());
    ++rows;
  }
  ASSERT_GT(rows, 50);
  EXPECT_NEAR(sum / rows, MemoryUse::kMeanError, 0.005);
}

TEST(ValidateMemory, TextAndRows) {
  const auto rows = validate_memory();
  const std::string text = memory_markdown(rows), csv = memory_csv(rows);
  EXPECT_NE(text.find("Held-out"), std::string::npos);
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), rows.size() + 1);
}

}  // namespace
}  // namespace tandem::tests

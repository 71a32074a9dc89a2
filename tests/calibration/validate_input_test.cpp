// SPDX-License-Identifier: Apache-2.0
// Runs with and without input, published against predicted.
#include "calibration/validate/validate_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tandem::tests {
namespace {

TEST(ValidateInput, ComparesEveryRunThatIsPublishedTwice) {
  const auto rows = validate_input();
  ASSERT_EQ(rows.size(), 9U);
  double error = 0;
  for (const InputRow& r : rows) {
    SCOPED_TRACE(r.model + " " + r.precision);
    EXPECT_GT(r.published, 0.5);
    EXPECT_LE(r.published, 1);
    EXPECT_LE(r.predicted, 1 + 1e-3) << "input makes nothing faster";
    if (r.host == 0) EXPECT_NEAR(r.predicted, 1, 0.01) << "tokens take next to nothing";
    if (r.host > 0) EXPECT_LT(r.predicted * r.without, r.host * 1.01) << "no more than the host decodes";
    error += std::abs(r.predicted / r.published - 1) / static_cast<double>(rows.size());
  }
  EXPECT_LT(error, 0.08);
  const std::string text = input_markdown(rows), csv = input_csv(rows);
  EXPECT_NE(text.find("## With and without input"), std::string::npos);
  EXPECT_NE(text.find("the workers' start in each epoch"), std::string::npos);
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), rows.size() + 1);
}

}  // namespace
}  // namespace tandem::tests

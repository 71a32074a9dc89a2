// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/visit_predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace tandem::tests {
namespace {

using calibration::visit_predictions_markdown;
using ::testing::HasSubstr;
using ::testing::Not;

Json predicted() {
  return Json::parse(
      R"({"schema": "tandem-visit-predictions-1", "date": "2030-01-02 10:00 UTC", "program": "tandem 9",
    "profile": "p", "command": "gpu_visit_predict.py", "rows": [
    {"system": "x100", "model": "a", "batch": 8, "precision": "bf16", "profile": "p", "samples_per_second": 110,
     "low": 90, "high": 130, "memory_bytes": {"nvidia_smi": 2147483648}, "watts": {"mean": 500}},
    {"system": "x100", "model": "a", "batch": 8, "options": {"adapter": "lora:rank=16"}, "precision": "bf16", "profile": "p",
     "samples_per_second": 210, "low": 190, "high": 230, "memory_bytes": {"nvidia_smi": 1073741824}},
    {"system": "y200", "model": "a", "batch": 8, "precision": "fp8", "profile": "stock", "samples_per_second": 7,
     "low": 6, "high": 8, "memory_bytes": {"nvidia_smi": 0}}]})",
      "predicted.json");
}

Json visit(const std::string& rows) {
  return Json::parse(R"({"date": "2030-01-02 11:00 UTC", "tandem": [)" + rows + "]}", "x100.json");
}

TEST(VisitPredictions, RowsThatNobodyRanSaySo) {
  const std::string text = visit_predictions_markdown(predicted(), {});
  EXPECT_THAT(text, HasSubstr("| a, 8 | bf16 | p | 110 | 90 to 130 | not yet run |  | 500 |  | 2.00 |"));
  EXPECT_THAT(text, HasSubstr("| a, 8 | fp8 | stock | 7 | 6 to 8 | not yet run |"));
  EXPECT_THAT(text, HasSubstr("None of 2 rows was run yet."));
  EXPECT_THAT(text, HasSubstr("on 2030-01-02 10:00 UTC by tandem 9"));
}

TEST(VisitPredictions, AVisitJudgesItsOwnTrainings) {
  const std::map<std::string, Json> visits = {
      {"x100",
       visit(R"({"model": "a", "batch": 8, "precision": "bf16", "samples_per_second": 100, "watts": 450})")}};
  const std::string text = visit_predictions_markdown(predicted(), visits);
  EXPECT_THAT(text, HasSubstr("| a, 8 | bf16 | p | 110 | 90 to 130 | 100 | +10.0 % | 500 | 450 | 2.00 |"));
  EXPECT_THAT(text, HasSubstr("| a, adapter lora:rank=16, 8 | bf16 | p | 210 | 190 to 230 | not yet run |"));
  EXPECT_THAT(text, HasSubstr("1 of 2 rows were run: mean error 10.0 %, 1 inside the interval."));
}

/// Nothing that was known when the prediction was written may judge it.
TEST(VisitPredictions, WhatWasMeasuredBeforeDoesNotCount) {
  for (const char* when : {"first", "2030-01-02 09:59 UTC", "2029-12-31 23:00 UTC"}) {
    const std::string row =
        std::string(R"({"model": "a", "batch": 8, "precision": "bf16", "samples_per_second": 100,
      "kernels": ")") +
        when + "\"}";
    const std::string text = visit_predictions_markdown(predicted(), {{"x100", visit(row)}});
    EXPECT_THAT(text, Not(HasSubstr("+10.0 %"))) << when;
  }
}

TEST(VisitPredictions, WhatIsMissingIsNamed) {
  EXPECT_THROW(visit_predictions_markdown(Json::parse(R"({"date": "x"})", "f.json"), {}), InputError);
}

}  // namespace
}  // namespace tandem::tests

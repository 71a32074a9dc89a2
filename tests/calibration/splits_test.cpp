// SPDX-License-Identifier: Apache-2.0
// Published rates of split models beside predictions: the dull model's closed form, errors, anchors, order.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "calibration/validate/validate_splits.h"
#include "models/graph.h"

namespace tandem::tests {
namespace {

using calibration::SplitRow;
using calibration::splits_markdown;
using calibration::validate_splits;
using testing::HasSubstr;

std::string written(const std::string& rows) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "splits.json").string();
  std::ofstream(path) << R"({"title": "t", "source": "s", "system": "dgx-a100-80gb", "recipe": "megatron",
    "precision": "fp16", "rows": [)" +
                             rows + "]}";
  return path;
}

TEST(Splits, DullModelIsPeakLessTheBubble) {
  const std::string model = "gpt2:layers=4,hidden=1024,heads=16,sequence=1024";
  const auto rows = validate_splits(
      {written(
          R"({"model": ")" + model +
          R"(", "devices": 4, "scheme": "hybrid:tensor=2,pipeline=2,microbatches=3", "batch": 2, "value": 50})")},
      1);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].failure, "");
  const double flops = 3 * static_cast<double>(models::Graph::load(model).forward_flops().n);
  EXPECT_NEAR(rows[0].dull, 0.4 * 312e12 * 4 * (1 - 1.0 / 4) / flops, 1e-6 * rows[0].dull);
  EXPECT_GT(rows[0].predicted, 0);
  EXPECT_LT(rows[0].low, rows[0].predicted);
  EXPECT_GT(rows[0].high, rows[0].predicted);
}

TEST(Splits, WhatCannotBePredictedIsARowWithItsReason) {
  const auto rows = validate_splits(
      {written(R"({"model": "gpt2", "devices": 3, "scheme": "hybrid:tensor=2", "batch": 1, "value": 50})")},
      1);
  EXPECT_THAT(rows.at(0).failure, HasSubstr("devices"));
  EXPECT_THROW(validate_splits({written(R"({"model": "gpt2", "devises": 3})")}, 1), InputError);
}

TEST(Splits, TableCountsErrorsAnchorsAndOrder) {
  const auto row = [](double published, double predicted, double dull) {
    SplitRow r;
    r.file = "f.json";
    r.model = "m";
    r.held_out = true;
    r.published = published;
    r.predicted = predicted;
    r.low = 0.95 * predicted;
    r.high = 1.05 * predicted;
    r.dull = dull;
    return r;
  };
  // Ours: +10, 0, -10 %; with the first as the anchor -9.1 and -18.2 %. The dull model turns the order round.
  std::vector<SplitRow> rows = {row(100, 110, 300), row(200, 200, 200), row(300, 270, 100)};
  rows[0].is_anchor = true;
  rows.push_back(row(1, 100, 100));
  rows.back().doubtful = "it is";
  EXPECT_THAT(
      splits_markdown(rows),
      HasSubstr(
          "| 3 | 0 | 33 % | +0.0 % | 6.7 % | 13.6 % | 18.2 % | 1.00 | +44.4 % | 88.9 % | 77.8 % | 88.9 % "
          "| -1.00 |"));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// What the rows say in sum, on rows made by hand.
#include "calibration/validate/validation_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::tests {
namespace {

/// A row of a held-out series: published and predicted rate, both with the interval 90..110 of the
/// prediction.
ValidationRow row(int64_t devices, double published, double predicted) {
  ValidationRow r;
  r.file = "held_out_a.json";
  r.system = "s";
  r.family = "cnn";
  r.generation = "volta";
  r.precision = "fp32";
  r.devices = devices;
  r.anchor_devices = 1;
  r.is_anchor = devices == 1;
  r.published = published;
  r.rate.samples_per_second = r.anchored = predicted;
  r.low = r.rate.interval.low = 0.9 * predicted;
  r.high = r.rate.interval.high = 1.1 * predicted;
  r.held_out = true;
  if (devices > 1) {
    r.published_speedup = published / 100;
    r.predicted_speedup = predicted / 100;
  }
  return r;
}

bool any(const ValidationRow&) { return true; }

TEST(ValidationStatistics, ErrorsAreSignedAndIntervalsCounted) {
  const Errors e = rate_errors({row(1, 100, 110), row(2, 200, 100), row(4, 400, 400)}, any);
  ASSERT_EQ(e.all.size(), 3u);
  EXPECT_NEAR(e.bias(), (0.1 - 0.5) / 3, 1e-12);
  EXPECT_NEAR(e.mean(), 0.2, 1e-12);
  EXPECT_NEAR(e.quantile(0.5), 0.1, 1e-12);
  EXPECT_NEAR(e.coverage(), 2.0 / 3, 1e-12) << "200 lies outside 90..110";
  EXPECT_NEAR(e.width(), std::log(1.1 / 0.9), 1e-12);
  EXPECT_NEAR(e.interval_score(), std::log(1.1 / 0.9) + 20 * std::log(200 / 110.0) / 3, 1e-12);
}

TEST(ValidationStatistics, ARowThatGaveAFigureCountsNowhere) {
  ValidationRow gave = row(64, 7080, 9000);
  gave.gives = "host.shared_storage";
  const std::vector<ValidationRow> rows{row(1, 100, 100), gave};
  EXPECT_EQ(rate_errors(rows, any).all.size(), 1u);
  EXPECT_EQ(speedup_errors(rows, any).all.size(), 0u);
  EXPECT_EQ(worst_ratio(gave), 1);
  EXPECT_NE(validation_csv(rows, "held_out_a.json").find("7080"), std::string::npos) << "it is shown";
}

TEST(ValidationStatistics, GroupsPartRowsByWhatWasSetOnThem) {
  ValidationRow seen = row(1, 100, 90), fitted = row(2, 200, 180);
  seen.in_kernels = true;
  fitted.held_out = false;
  const std::vector<ValidationRow> rows{seen, fitted, row(4, 400, 300)};
  const auto apart = row_groups(rows, true), others = row_groups(rows, false);
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(apart[0].rates.all.size(), 1u);
  EXPECT_EQ(apart[0].speedups.all.size(), 1u);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].rates.all.size(), 2u) << "a rate that the stock curves rest on is not held out";
  EXPECT_EQ(others[0].speedups.all.size(), 1u);
}

TEST(ValidationStatistics, OrderOfSchemesIsJudgedByModelAndDeviceCount) {
  std::vector<ValidationRow> rows;
  for (const double rate : {1.0, 2.0, 3.0}) {
    ValidationRow r = row(8, 800 * rate, 800 * rate);
    r.file = "held_out_hkbu_ipoib.json";
    r.system = "hkbu-ipoib";
    r.nodes = 2;
    rows.push_back(r);
    r.devices = 16;  // in the wrong order
    r.published = 10'000 - r.published;
    rows.push_back(r);
  }
  const std::vector<Aim> all = aims(rows);
  EXPECT_EQ(all.back().rows, 6);
  EXPECT_EQ(all.back().value, 0);
  EXPECT_FALSE(all.back().met());
}

TEST(ValidationStatistics, APairIsClearWhereItsRunsTellTheFasterOne) {
  std::vector<ValidationRow> rows;
  for (const auto& [published, predicted] : {std::pair{100.0, 300.0}, {110.0, 200.0}, {200.0, 400.0}}) {
    ValidationRow r = row(8, published, predicted);
    r.file = "held_out_hkbu_ipoib.json";
    r.system = "hkbu-ipoib";
    r.nodes = 2;
    r.deviation = 5;  // of a difference 7.07, twice that is more than 10
    rows.push_back(r);
  }
  SchemeOrder order = order_of_schemes(rows, "hkbu-ipoib");
  EXPECT_EQ(order.rows, 3);
  EXPECT_EQ(order.pairs, 3);
  EXPECT_EQ(order.clear, 2);
  EXPECT_NEAR(order.tau, 1.0 / 3, 1e-12);
  EXPECT_NEAR(order.clear_tau, 1, 1e-12);
  for (ValidationRow& r : rows) r.deviation = 0;
  order = order_of_schemes(rows, "hkbu-ipoib");
  EXPECT_EQ(order.clear, 3);
  EXPECT_EQ(order.clear_tau, order.tau);
  EXPECT_EQ(order_of_schemes(rows, "hkbu-rdma").rows, 0);
}

TEST(ValidationStatistics, AnAimIsARange) {
  const Aim most{"error", 0, 0.05, 0.051, 3}, bias{"bias", -0.08, 0.08, -0.07, 3},
      order{"tau", 0.8, 1, 0.9, 3, false}, share{"inside", 0.85, 0.95, 0.99, 3};
  EXPECT_EQ(most.range(), "at most 5.0 %");
  EXPECT_FALSE(most.met());
  EXPECT_EQ(bias.range(), "within 8.0 %");
  EXPECT_EQ(bias.figure(), "-7.0 %");
  EXPECT_TRUE(bias.met());
  EXPECT_EQ(order.range(), "0.80 and more");
  EXPECT_TRUE(order.met());
  EXPECT_EQ(share.range(), "85.0 % to 95.0 %");
  EXPECT_FALSE(share.met()) << "too wide is wrong as well";
  EXPECT_FALSE((Aim{"nothing", 0, 1, 0, 0}.met())) << "nothing to judge by";
}

TEST(ValidationStatistics, TheWorstRowOfEachSeries) {
  const std::vector<ValidationRow> rows{row(1, 100, 100), row(2, 200, 210), row(4, 400, 200),
                                        row(1, 100, 130), row(2, 200, 210)};
  const auto worst = worst_rows(rows, 5);
  ASSERT_EQ(worst.size(), 2u);
  EXPECT_EQ(worst[0]->devices, 4);
  EXPECT_EQ(worst_ratio(*worst[0]), 2);
  EXPECT_EQ(worst[1]->published, 100);
}

TEST(ValidationStatistics, CellsOfCsvAreQuotedWhereTheyMustBe) {
  ValidationRow r = row(1, 100, 100);
  r.model = "bert-large:sequence=512,predictions=80";
  r.note = "called \"100GbE\"";
  const std::string text = validation_csv({r}, r.file);
  EXPECT_NE(text.find(",\"bert-large:sequence=512,predictions=80\","), std::string::npos);
  EXPECT_NE(text.find("\"called \"\"100GbE\"\"\""), std::string::npos);
}

}  // namespace
}  // namespace tandem::tests

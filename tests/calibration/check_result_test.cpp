// SPDX-License-Identifier: Apache-2.0
// What `tandem check` found: sums, the document and back, the section of VALIDATION.md.
#include "calibration/validate/check_result.h"
#include "calibration/validate/visits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "calibration/validate/kernel_efficiency.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

CheckRow row(const char* metric, int64_t devices, double predicted, double executed) {
  CheckRow r;
  r.model = "lenet5";
  r.scheme = "parameter-server:mode=async";
  r.metric = metric;
  r.devices = devices;
  r.batch = 64;
  r.predicted = predicted;
  r.executed = executed;
  r.error = predicted / executed - 1;
  r.floor = 0.01;
  return r;
}

CheckResult two_rates_and_a_distance() {
  CheckResult c;
  c.machine = "a laptop";
  c.date = "2026-01-01";
  c.versions = "test";
  c.rows = {row("samples_per_second", 1, 103, 100), row("samples_per_second", 2, 180, 200),
            row("staleness_distance", 2, 0, 0.3)};
  c.rows[0].interval = c.rows[1].interval = c.rows[0].covered = true;
  c.rows[2].error = 0.3;
  return c;
}

TEST(CheckResult, SumsLeaveDistancesOut) {
  const CheckResult::Summary s = two_rates_and_a_distance().summary();
  EXPECT_NEAR(s.mean, (0.03 + 0.1) / 2, 1e-12);
  EXPECT_NEAR(s.most, 0.1, 1e-12);
  EXPECT_EQ(s.intervals, 2);
  EXPECT_EQ(s.covered, 0.5);
  EXPECT_EQ(CheckResult{}.summary().mean, 0);
}

TEST(CheckResult, NamesWhatIsBeyondTheTolerance) {
  const CheckResult c = two_rates_and_a_distance();
  EXPECT_EQ(c.failures(0.05),
            (std::vector<std::string>{
                "lenet5, 2 workers, parameter-server:mode=async: samples_per_second -10.0 %"}));
  EXPECT_EQ(c.failures(0.02).size(), 2U) << "distances are not relative";
  EXPECT_TRUE(c.failures(0.25).empty());
}

TEST(CheckResult, CountsIntervalsThatSayNothing) {
  CheckResult c = two_rates_and_a_distance();
  EXPECT_EQ(c.summary().wide, 0) << "of a kept result that does not tell";
  c.rows[0].low = 49;
  c.rows[0].high = 2897;
  c.rows[1].low = 150;
  c.rows[1].high = 220;
  EXPECT_EQ(c.summary().wide, 1);
  c.load.processors = 2;
  c.load.others = 0.7;
  const std::string text = c.to_json();
  EXPECT_EQ(CheckResult::from_json(Json::parse(text, "check.json")).to_json(), text);
}

TEST(CheckResult, SurvivesItsDocument) {
  const std::string text = two_rates_and_a_distance().to_json();
  EXPECT_EQ(CheckResult::from_json(Json::parse(text, "check.json")).to_json(), text);
}

TEST(CheckResult, OneRunAloneIsNotSaidToRepeat) {
  CheckResult c = two_rates_and_a_distance();
  EXPECT_EQ(c.rows[0].cells().back(), "1.0 %");
  c.rows[0].repeated = false;
  c.rows[0].floor = 0;
  EXPECT_EQ(c.rows[0].cells().back(), "-");
  const std::string text = c.to_json();
  EXPECT_THAT(text, HasSubstr("\"repeatability\": null"));
  EXPECT_EQ(CheckResult::from_json(Json::parse(text, "check.json")).to_json(), text);
}

TEST(CheckResult, NamesThePlaceOfWhatIsWrong) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      CheckResult::from_json(Json::parse(text, "c.json"));
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message(R"({"schema": "x"})"), HasSubstr("tandem-check-1"));
  EXPECT_THAT(message("{\"schema\": \"tandem-check-1\",\n \"cases\": [{\"model\": 1}]}"),
              HasSubstr("c.json:2:"));
}

TEST(CheckResult, CommittedResultsAreReadable) {
  const std::string section = executed_markdown();
  EXPECT_THAT(section, HasSubstr("## Executed"));
}

/// resnet50 ran in three states of the kernels: the last counts.
TEST(Visits, TheLastRunOfACaseCounts) {
  EXPECT_THAT(visits_markdown(),
              HasSubstr("| resnet50, 64 | 6606 | 4103 | 2097 | 2912 | 6454 | 5062 | 1996 "
                        "| 3286 | | 3461 | 2804 | 2695 | 2643 | 1263 | 951 | 924 | 2.11.0+cu130 |"));
}

/// A visit's section has the rows that tandem show profile prints of the profile of its name.
TEST(Visits, HaveTheTableOfTheirProfile) {
  const EfficiencyTable t =
      kernel_efficiency(MachineProfile(load_measured_profile("h200"), Precision::bf16), Precision::bf16);
  const std::string section = visits_markdown();
  EXPECT_THAT(section, HasSubstr("\nbf16: " + efficiency_basis(t)));
  for (const KernelEfficiency& row : t.rows)
    EXPECT_THAT(section, HasSubstr(fmt::format("\n| {} |", fmt::join(efficiency_cells(t, row), " | "))));
}

}  // namespace
}  // namespace tandem::tests

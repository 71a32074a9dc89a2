// SPDX-License-Identifier: Apache-2.0
// tandem validate --add of what gpu_visit.py --call multi wrote.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string visit_text(const std::string& trainings, const std::string& more = "") {
  return fmt::format(R"({{"schema": "tandem-visit-1", "machine": "8 H100", "date": "2030-01-02 03:04 UTC", {}
"trainings": [{}]}})",
                     more, trainings);
}

std::string training(int64_t devices, double rate, const std::string& scheme = "allreduce",
                     const std::string& more = "") {
  return fmt::format(
      R"({{"model": "resnet18", "batch": 64, "precision": "bf16", "scheme": "{}", "devices": {},
"samples_per_second": {}{}}})",
      scheme, devices, rate, more);
}

ChildResult judged(const Scratch& folder, const std::string& text,
                   const std::vector<std::string>& more = {"--system", "dgx-h100"}) {
  std::vector<std::string> words = {"validate", "--add", folder.write("visit.json", text)};
  words.insert(words.end(), more.begin(), more.end());
  return tool(words);
}

/// What `predict` says of the same.
double asked(const char* devices) {
  return last_report(tool({"predict", "--model", "resnet18", "--system", "dgx-h100", "--devices", devices,
                           "--batch", "64", "--precision", "bf16", "--profile", "h200", "--input",
                           "synthetic", "--format", "json", "--no-timeline"})
                         .out)
      .at("samples_per_second")
      .as_real();
}

std::vector<std::string> line(const std::string& csv, std::size_t row) {
  return split(split(csv, '\n').at(row), ',');
}

TEST(ValidateVisit, PredictsWhatWasMeasured) {
  const Scratch folder;
  const std::string text =
      visit_text(training(1, 10000) + "," + training(8, 70000, "allreduce", R"(, "watts": 600)"));
  const auto csv = judged(folder, text, {"--system", "dgx-h100", "--format", "csv"});
  ASSERT_EQ(csv.status, 0) << csv.err;
  EXPECT_NEAR(std::stod(line(csv.out, 1).at(8)) / asked("1"), 1, 1e-4);
  EXPECT_NEAR(std::stod(line(csv.out, 2).at(8)) / asked("8"), 1, 1e-4);
  const double one = std::stod(line(csv.out, 1).at(8)), eight = std::stod(line(csv.out, 2).at(8)),
               from_one = std::stod(line(csv.out, 2).at(12));
  EXPECT_NEAR(from_one / eight, 10000 / one, 0.1 * from_one / eight) << "as fast as the one device was";
  const auto page = judged(folder, text);
  EXPECT_THAT(page.out, HasSubstr("8 H100, 2030-01-02 03:04 UTC, predicted as dgx-h100."));
  EXPECT_THAT(page.out, HasSubstr("2 rates: mean error"));
  EXPECT_THAT(page.out, HasSubstr("1 rates from one device: mean error"));
  EXPECT_THAT(page.out, HasSubstr("## Watts of a device"));
  EXPECT_THAT(page.out, Not(HasSubstr("## Staleness")));
}

TEST(ValidateVisit, StalenessAndSumsHaveTablesOfTheirOwn) {
  const Scratch folder;
  const std::string text = visit_text(
      training(4, 30000, "parameter-server:mode=async,server=gpu", R"(, "staleness": 3.5)"),
      R"("collectives": [{"ranks": 1, "bytes": 8, "seconds": 1}, {"ranks": 8, "bytes": 1048576, "seconds": 9, "in_row_seconds": 5e-5}],)");
  const auto page = judged(folder, text);
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("| resnet18 | parameter-server:mode=async,server=gpu | 4 | 3.50 |"));
  EXPECT_THAT(page.out, HasSubstr("| 8 | 1 MiB | 50 us |"));
  EXPECT_THAT(page.out, HasSubstr("1 times: mean error"));
}

/// Without --system it is the one that the visit's own matrix gave.
TEST(ValidateVisit, TheMachineMayBeInTheFile) {
  const Scratch folder;
  const std::string system = R"("system": {"name": "visited", "summary": "s", "extends": "dgx-h100"},)";
  const auto page = judged(folder, visit_text(training(1, 10000), system), {});
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("predicted as visited."));
}

TEST(ValidateVisit, WhatIsWrongIsOneMessage) {
  const Scratch folder;
  const auto refused = [&](const std::string& text, const std::string& why,
                           const std::vector<std::string>& more = {"--system", "dgx-h100"}) {
    const auto r = judged(folder, text, more);
    EXPECT_EQ(r.status, 3) << text;
    EXPECT_EQ(r.out, "");
    EXPECT_THAT(r.err, HasSubstr(why));
  };
  refused(visit_text(training(1, 1)), "does not say on what", {});
  refused(R"({"schema": "tandem-visit-1", "date": "d"})", "has nothing of several GPUs");
  refused(R"({"schema": "tandem-visit-1", "date": "d", "trainings": [], "collectives": []})",
          "has nothing of several GPUs");
  refused(visit_text(R"({"model": "resnet18"})"), "precision");
  refused(visit_text(training(0, 1)), "0 is outside 1 .. 65536");
  refused(visit_text(training(1, -1)), "-1 is outside");
  refused(visit_text(training(1, 1, "allredcue")), "allreduce");
  refused(visit_text(training(1, 1)), "no system", {"--system", "dgx-h1000"});
  refused(visit_text(training(64, 1)), "64");
  refused(visit_text(training(1, 1), R"("collectives": [{"ranks": 8, "bytes": "x", "seconds": 1}],)"),
          "number");
  refused(visit_text(training(1, 1), R"("collectives": 5,)"), "expected a list");
  refused("{", "visit.json");
}

TEST(ValidateVisit, OptionsOfRecordsAreRefused) {
  const Scratch folder;
  const auto r =
      judged(folder, visit_text(training(1, 1)), {"--system", "dgx-h100", "--scheme", "allreduce"});
  EXPECT_NE(r.status, 0);
  EXPECT_THAT(r.err, HasSubstr("--scheme: goes with records"));
}

}  // namespace
}  // namespace tandem::tests

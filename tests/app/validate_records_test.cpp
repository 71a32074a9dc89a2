// SPDX-License-Identifier: Apache-2.0
// tandem validate --add: recorded training steps against their predictions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Recorded {
  int64_t devices = 1;
  double seconds = 0.1;
  int64_t batch = 32;  ///< of a device
  std::string question = R"("question": {"schema": "tandem-question-1", "model": "resnet50"},)";
};

std::string record_text(const Recorded& r) {
  return fmt::format(
      R"({{"schema": "tandem-record-1", "name": "", "world_size": {0}, "rank": 0,
"machine": {{"processor": "a processor", "devices": [{{"name": "Tesla V100", "memory_bytes": 17179869184}}]}},
"versions": {{"torch": "2.15.0"}}, {3}
"step_seconds": {{"low": {1}, "median": {1}, "high": {1}, "steps": 8}},
"memory": {{"host_bytes": 1, "allocated_bytes": 4000000000}},
"operators": [{{"name": "aten::cudnn_convolution", "count": 53, "host_seconds": 0.01, "device_seconds": 0.05}},
 {{"name": "cudnn_conv_kernel", "count": 53, "host_seconds": 0, "device_seconds": 0.05}}],
"samples_per_step": {2}}})",
      r.devices, r.seconds, r.batch * r.devices, r.question);
}

/// What `predict` says of the same, in samples/s.
double asked(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"predict", "--model",   "resnet50", "--system", "v100-pcie-8x",
                                    "--input", "synthetic", "--format", "json",     "--no-timeline"};
  words.insert(words.end(), more.begin(), more.end());
  return last_report(tool(words).out).at("samples_per_second").as_real();
}

/// A column of the csv's last line, which has no quoted cell before it.
std::string cell(const std::string& csv, std::size_t row, std::size_t column) {
  return split(split(csv, '\n').at(row), ',').at(column);
}

TEST(ValidateRecords, PredictsWhatWasRecorded) {
  const Scratch folder;
  const std::string file = folder.write("one.json", record_text({}));
  const auto csv = tool({"validate", "--add", file, "--system", "v100-pcie-8x", "--format", "csv"});
  ASSERT_EQ(csv.status, 0) << csv.err;
  EXPECT_THAT(csv.out, HasSubstr("1 Tesla V100,2.15.0,1,32,320,"));
  EXPECT_NEAR(std::stod(cell(csv.out, 1, 9)), asked({"--devices", "1"}), 0.01);

  const auto page = tool({"validate", "--add", file, "--system", "v100-pcie-8x"});
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("1 rate: mean error"));
  EXPECT_THAT(page.out, HasSubstr("## Memory"));
  EXPECT_THAT(page.out, HasSubstr("| convolutions, products |"));
  EXPECT_THAT(page.out, HasSubstr("50.00 |")) << "a kernel counts once, not with its operator";
  EXPECT_THAT(page.out, Not(HasSubstr("## Power")));
}

TEST(ValidateRecords, JudgesWhatAGpuDrew) {
  const Scratch folder;
  const std::string question = R"("power": {"watts_per_device": 200, "joules_per_step": 20},
"question": {"schema": "tandem-question-1", "model": "resnet50"},)";
  const std::string file = folder.write("one.json", record_text({.question = question}));
  const auto page = tool({"validate", "--add", file, "--system", "v100-pcie-8x"});
  ASSERT_EQ(page.status, 0) << page.err;
  const double watts =
      last_report(tool({"predict", "--model", "resnet50", "--system", "v100-pcie-8x", "--devices", "1",
                        "--input", "synthetic", "--format", "json", "--no-timeline"})
                      .out)
          .at("power")
          .at("watts_per_device")
          .as_real();
  EXPECT_THAT(page.out, HasSubstr("## Power of a GPU"));
  EXPECT_THAT(page.out, HasSubstr(fmt::format("| 200 | {:.0f} |", watts)));
  const std::string none = folder.write(
      "none.json", record_text({.question = R"("power": {"watts_per_device": 0},)" + Recorded{}.question}));
  const auto refused = tool({"validate", "--add", none, "--system", "v100-pcie-8x"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("none.json:3"));
}

TEST(ValidateRecords, TheRecordOnFewestDevicesIsTheAnchorOfTheOthers) {
  const Scratch folder;
  const std::string one = folder.write("one.json", record_text({})),
                    two = folder.write("two.json", record_text({.devices = 2, .seconds = 0.11}));
  const auto csv = tool({"validate", "--add", two, one, "--system", "v100-pcie-8x", "--format", "csv"});
  ASSERT_EQ(csv.status, 0) << csv.err;
  EXPECT_EQ(cell(csv.out, 1, 13), "1");
  EXPECT_EQ(cell(csv.out, 2, 13), "") << "the anchor has none";
  EXPECT_NEAR(std::stod(cell(csv.out, 1, 14)), asked({"--devices", "2", "--anchor", "320@1"}), 0.01);
  const auto page = tool({"validate", "--add", one, two, "--system", "v100-pcie-8x"});
  EXPECT_THAT(page.out, HasSubstr("2 rates: mean error"));
  EXPECT_THAT(page.out, HasSubstr("From the record on fewest devices"));
}

TEST(ValidateRecords, SaysWhatIsMissingOrWrong) {
  const Scratch folder;
  const auto refused = [&](const Recorded& record, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"validate", "--add", folder.write("r.json", record_text(record))};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = tool(words);
    EXPECT_EQ(result.status, 3) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({}, {}), HasSubstr("does not say on what: give --system"));
  EXPECT_THAT(refused({.question = ""}, {"--system", "dgx1-v100"}),
              HasSubstr("does not say what was trained: give --model"));
  EXPECT_THAT(refused({.question = R"("question": {"schema": "tandem-question-1", "model": "resnet5"},)"},
                      {"--system", "dgx1-v100"}),
              HasSubstr("r.json:3"));
  EXPECT_THAT(
      refused(
          {.question = R"("question": {"schema": "tandem-question-1", "model": "resnet50", "batch": 8},)"},
          {"--system", "dgx1-v100"}),
      HasSubstr("32 samples a step were recorded, and its question has 8"));
  const auto other = tool({"validate", "--add", folder.write("x.json", R"({"schema": "tandem-trace-1"})")});
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.err, HasSubstr("is no record"));
  EXPECT_NE(tool({"validate", "--add"}).status, 0);
  EXPECT_THAT(tool({"validate", "--system", "dgx1-v100"}).err, HasSubstr("--system: goes with --add"));
}

}  // namespace
}  // namespace tandem::tests

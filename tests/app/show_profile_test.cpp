// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

/// A product at half and a pass over memory at a quarter of what an H200 has; in tf32 beside it a product at
/// the whole peak.
std::string profile_of(const std::string& machine) {
  constexpr const char* kProduct =
      R"({{"kind": "gemm", "pass": "forward", "shape": [1, 4096, 4096, 4096], "flops": 137438953472,
          "read": {0}, "written": {1}, "seconds": {2}, "launches": 3}})";
  constexpr const char* kFormat = R"("precision": "{}", "error_per_distance": 0, "error_of_several": 0,
          "op_overhead_seconds": 0, "kernel_overhead_seconds": {}, "wake_seconds": 0, "step_sigma": 0,
          "slowdown": [], "curves": [], "kernels": [{}])";
  const std::string bf16 = fmt::format(fmt::runtime(kProduct), 67108864, 33554432,
                                       137438953472 / (0.5 * 989e12) - 2e-6),
                    tf32 = fmt::format(fmt::runtime(kProduct), 134217728, 67108864, 137438953472 / 494.5e12);
  const std::string pass =
      R"({"kind": "elementwise", "pass": "backward-data", "shape": [1200000000, 1], "flops": 1200000000,
          "read": 2400000000, "written": 2400000000, "seconds": 0.003998, "launches": 1})";
  return fmt::format(
      R"({{"schema": "tandem-profile-1", "summary": "two kernels", "machine": "{}", "date": "today",
          "cores": 1, "all_reduce": [], "copy": [],
          "copies": {{"pinned-to-device": [{{"bytes": 1, "seconds": 1e-6}}]}}, {},
          "more_precisions": [{{{}}}]}})",
      machine, fmt::format(fmt::runtime(kFormat), "bf16", 2e-6, bf16 + ", " + pass),
      fmt::format(fmt::runtime(kFormat), "tf32", 0, tf32));
}

std::string shown(const std::string& text, const std::string& file) {
  const auto at = text.find('\n');
  EXPECT_EQ(text.substr(0, at), file + ": two kernels");
  return text.substr(at + 1);
}

TEST(ShowProfile, OneTableAPrecision) {
  const Scratch scratch;
  const std::string file = scratch.write("made.json", profile_of("NVIDIA H200"));
  const ChildResult result = tool({"show", "profile", file});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(shown(result.out, file), R"(
bf16: Roofline of h200-sxm: 989 TFLOP/s in products, 67 TFLOP/s in all other kernels, 4.8 TB/s. Stock curves with recipe pytorch-channels-last.

kind          pass            shapes   launches      time   TFLOP/s   GB/s   of roofline   stock / measured
gemm          forward              1          3    17.2 %       494    362          50 %               0.65
elementwise   backward-data        1          1    82.8 %     0.300   1200          25 %               0.31
all                                2          4   100.0 %      85.5   1055          29 %               0.37

0.2 % of the time passes between kernels; it is counted with the preceding one.

tf32: Roofline of h200-sxm: 494 TFLOP/s in products, 67 TFLOP/s in all other kernels, 4.8 TB/s. Stock curves with recipe pytorch-channels-last.

kind   pass      shapes   launches      time   TFLOP/s   GB/s   of roofline   stock / measured
gemm   forward        1          3   100.0 %       494    724         100 %               1.30
all                   1          3   100.0 %       494    724         100 %               1.30
)");
  const std::string bf16 = shown(tool({"show", "profile", file, "--precision", "bf16"}).out, file);
  EXPECT_EQ(shown(result.out, file).substr(0, bf16.size()), bf16);
}

TEST(ShowProfile, AsADocument) {
  const Scratch scratch;
  const std::string file = scratch.write("made.json", profile_of("NVIDIA H200"));
  const Json d = Json::parse(tool({"show", "profile", file, "--format", "json"}).out, "stdout");
  EXPECT_EQ(d.at("schema").as_text(), "tandem-kernels-1");
  ASSERT_EQ(d.at("precisions").items().size(), 2U);
  const Json& bf16 = d.at("precisions").items()[0];
  EXPECT_EQ(bf16.at("device").at("name").as_text(), "h200-sxm");
  EXPECT_NEAR(bf16.at("kernels").items()[0].at("roofline_share").as_real(), 0.5, 1e-9);
  EXPECT_NEAR(bf16.at("kernels").items()[1].at("roofline_share").as_real(), 0.25, 1e-9);
  EXPECT_NEAR(bf16.at("all").at("seconds").as_real(), 3 * 137438953472 / (0.5 * 989e12) + 0.004, 1e-12);
  EXPECT_NEAR(d.at("precisions").items()[1].at("all").at("roofline_share").as_real(), 1, 1e-9);
}

TEST(ShowProfile, WithoutADescribedDeviceThereIsNoRoofline) {
  const Scratch scratch;
  const std::string file = scratch.write("made.json", profile_of("NVIDIA H999"));
  const ChildResult result = tool({"show", "profile", file, "--precision", "tf32"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no roofline"));
  EXPECT_THAT(result.out, Not(HasSubstr("of roofline")));
  const Json d = Json::parse(tool({"show", "profile", file, "--format", "json"}).out, "stdout");
  EXPECT_EQ(d.at("precisions").items()[0].find("device"), nullptr);
}

}  // namespace
}  // namespace tandem::tests

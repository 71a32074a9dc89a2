// SPDX-License-Identifier: Apache-2.0
// Pictures come out as PNG and SVG, and nothing in a report can make gnuplot do anything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/console/child.h"
#include "app/pictures/draw.h"
#include "app/pictures/gnuplot.h"
#include "base/error.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

bool is_png(const std::string& bytes) { return bytes.rfind("\x89PNG", 0) == 0; }

TEST(Plot, DrawsEveryKindAsPngAndSvg) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(
      tool(small_predict({"--scheme", "parameter-server:mode=async", "--format", "json", "--out", report}))
          .status,
      0);
  const ChildResult result = tool({"plot", report, "--out", scratch.file("pictures")});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* kind : {"scaling", "breakdown", "staleness", "timeline"}) {
    const std::string base = scratch.file(std::string("pictures/r-") + kind);
    EXPECT_TRUE(is_png(slurp(base + ".png"))) << kind;
    EXPECT_THAT(slurp(base + ".svg"), HasSubstr("<svg"));
    EXPECT_THAT(result.out, HasSubstr(base + ".png"));
  }
}

TEST(Plot, CountsTheIdealFromTheFewestDevicesThatHoldTheModel) {
  const Scratch scratch;
  const std::string report = R"({"engine": "sim", "devices": 1, "fits": false, "samples_per_second": null},
      {"engine": "sim", "devices": 2, "samples_per_second": 10.0, "speedup": 1.0, "scaling_efficiency": 1.0,
       "speedup_base_devices": 2},
      {"engine": "sim", "devices": 4, "samples_per_second": 16.0, "speedup": 1.6, "scaling_efficiency": 0.8,
       "speedup_base_devices": 2})";
  const std::string path =
      scratch.write("r.json", R"({"schema": "tandem-reports-2", "reports": [)" + report + "]}");
  const ChildResult result = tool({"plot", path, "--kind", "scaling", "--out", scratch.file("p")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(slurp(scratch.file("p/r-scaling.svg")), HasSubstr("in proportion to 2 devices"));
  const std::string unfit = scratch.write(
      "u.json",
      R"({"schema": "tandem-reports-2", "reports": [{"engine": "sim", "devices": 1, "fits": false}]})");
  const ChildResult nothing = tool({"plot", unfit, "--out", scratch.file("p")});
  EXPECT_EQ(nothing.status, 3);
  EXPECT_THAT(nothing.err, HasSubstr("none of the reports is of a model that fits"));
}

TEST(Plot, SaysWhenThereIsNothingToDraw) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", report})).status, 0);
  const ChildResult result = tool({"plot", report, "--kind", "staleness", "--out", scratch.file("p")});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("nothing to draw"));
}

TEST(Plot, HostileNamesAreOnlyText) {
  const Scratch scratch;
  const std::string trap = scratch.file("trap");
  const std::string name =
      "'; system('touch " + trap + "') # `touch " + trap + "` \\\" $x @y {/z}\\n\\tEND_OF_DATA\\nquit";
  const auto report = [&](int devices) {
    return R"({"engine": "sim", "devices": )" + std::to_string(devices) +
           R"(, "samples_per_second": 5.0, "iteration_seconds": {"median": 0.1}, "time_share": {"compute": 1.0},
           "inputs": {"model": ")" +
           name + R"(", "batch_per_device": 1}, "speedup": 1.0,
           "timeline": [{"role": "worker", "instance": 0, "lane": "compute", "label": ")" +
           name + R"(", "iteration": 0, "start": 0.0, "end": 1.0}]})";
  };
  const std::string path = scratch.write(
      "r.json", R"({"schema": "tandem-reports-2", "reports": [)" + report(1) + "," + report(2) + "]}");
  const ChildResult result = tool({"plot", path, "--out", scratch.file("p")});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(trap));
  EXPECT_TRUE(is_png(slurp(scratch.file("p/r-timeline.png"))));
}

TEST(Show, DrawsSystemsAndModels) {
  const Scratch scratch;
  ASSERT_EQ(tool({"show", "system", "dgx1-v100", "--out", scratch.file("s.png")}).status, 0);
  EXPECT_TRUE(is_png(slurp(scratch.file("s.png"))));
  ASSERT_EQ(tool({"show", "model", "lenet5", "--out", scratch.file("m.svg")}).status, 0);
  EXPECT_THAT(slurp(scratch.file("m.svg")), HasSubstr("<svg"));
}

TEST(Show, WithoutGnuplotSaysHowToGetIt) {
  const Scratch scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", report})).status, 0);
  const ChildResult result = shell("PATH=/nonexistent \"$0\" plot " + report);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("apt-get install gnuplot-nox"));
}

TEST(Child, KillsWhatTakesTooLong) {
  const ChildResult result = run_child({"sleep", "30"}, "", "", std::chrono::seconds(1));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.status, 128 + 9);
}

TEST(Child, FeedsAndReadsMoreThanAPipeHolds) {
  const std::string text(3'000'000, 'x');
  const ChildResult result = run_child({"cat"}, text, "");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, text);
  EXPECT_EQ(run_child({"true"}, text, "").status, 0);  // a child that does not read is no error
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Traces of profilers at the command line: import kineto, and compare with a report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

std::string traced(const std::string& name) {
  return std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/kineto/" + name;
}

TEST(Trace, IsToldByItsContentAndSaysWhereTimeGoes) {
  const ChildResult text = tool({"import", traced("three_steps"), "--batch", "32"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              HasSubstr("NVIDIA A100-SXM4-40GB · rank 0 of 2 · NCCL 2.27.3 · 2 steps by ProfilerStep"));
  EXPECT_THAT(text.out, HasSubstr("waits for the host               5.31    53 %"));
  EXPECT_THAT(text.out, HasSubstr("--anchor 6400@2"));

  const ChildResult json = tool({"import", "kineto", traced("three_steps"), "--format", "json"});
  const Json rank = Json::parse(json.out, "trace").at("ranks").items().at(0);
  EXPECT_NEAR(rank.at("exposed_communication_seconds").as_real(), 0.001, 1e-9);
  EXPECT_EQ(rank.at("collectives").items().at(0).at("bytes").as_int(), 1024000);
}

TEST(Trace, OfStandardInputAndPacked) {
  const Scratch scratch;
  const std::string packed = scratch.file("trace.json.gz");
  ASSERT_EQ(std::system(("gzip -c " + traced("three_steps") + " > " + packed).c_str()), 0);
  const ChildResult plain = tool({"import", traced("three_steps")});
  EXPECT_EQ(tool({"import", packed}).out, plain.out);
  EXPECT_EQ(tool({"import", "-"}, slurp(traced("three_steps"))).out, plain.out);
}

TEST(Trace, RefusalsAreOneLine) {
  const Scratch scratch;
  const std::string half = scratch.file("half.json");
  std::ofstream(half) << slurp(traced("three_steps")).substr(0, 1000);
  for (const auto& [words, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"import", half}, "no JSON at byte 1001: was the profiler still writing it?"},
           {{"import", traced("execution_trace")}, "an execution trace, which has no times"},
           {{"import", traced("three_steps"), traced("three_steps")}, "are both of rank 0"},
           {{"import", traced("three_steps"), traced("arguments")}, "not one training"},
           {{"compare", scratch.file("no.json"), traced("three_steps")}, "no.json: cannot read"}}) {
    const ChildResult refused = tool(words);
    EXPECT_EQ(refused.status, 3) << says;
    EXPECT_THAT(refused.err, HasSubstr(says));
  }
}

TEST(Trace, IsNotComparedWithAnother) {
  const ChildResult refused = tool({"compare", traced("three_steps"), traced("arguments")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("two traces"));
}

TEST(Trace, StandsBesideAReport) {
  const Scratch scratch;
  const std::string report = scratch.file("report.json");
  ASSERT_EQ(tool({"predict", "--model", "lenet5", "--system", "dgx-a100", "--devices", "1,2", "--format",
                  "json", "--out", report})
                .status,
            0);
  const ChildResult text = tool({"compare", report, traced("three_steps")});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Largest disagreement: waits for the host, 5.31 ms traced"));
  EXPECT_EQ(tool({"compare", traced("three_steps"), report}).out, text.out);  // in either order
  const Json json =
      Json::parse(tool({"compare", report, traced("three_steps"), "--format", "json"}).out, "json");
  double sum = 0;
  for (const Json& row : json.at("rows").items()) sum += row.at("traced_seconds").as_real();
  EXPECT_NEAR(sum, json.at("traced_step_seconds").as_real(),
              1e-9);  // nothing of this step overlaps but what is said
}

}  // namespace
}  // namespace tandem::tests

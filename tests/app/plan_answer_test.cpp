// SPDX-License-Identifier: Apache-2.0
// What `tandem plan` prints and draws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "plan/plan_words.h"
#include "tests/app/svg.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

ChildResult ask_plan(std::vector<std::string> more) {
  std::vector<std::string> words = {"plan",           "--model", "resnet50", "--epochs",   "1",
                                    "--global-batch", "256",     "--today",  "2026-11-29", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return tool(words);
}

TEST(PlanPictures, ShowEachCandidateAndWhatDecides) {
  const Scratch scratch;
  const ChildResult made =
      ask_plan({"--systems", "dgx1-v100,dgx-a100,dgx-h100", "--rank", "cheapest", "--plot",
                scratch.file("p.svg"), "--format", "json", "--out", scratch.file("p.json")});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::size_t all = Json::load(scratch.file("p.json")).at("candidates").items().size();
  for (const char* kind : {"cost", "power", "inputs"})
    expect_sound(scratch.file(std::string("p-") + kind + ".svg"));
  const auto power = svg_texts(slurp(scratch.file("p-power.svg")));
  for (std::size_t rank = 1; rank <= all; ++rank) {
    EXPECT_TRUE(std::any_of(power.begin(), power.end(), [&](const SvgBox& t) {
      return t.text == std::to_string(rank);
    })) << rank;
  }
  EXPECT_THAT(slurp(scratch.file("p-cost.svg")), HasSubstr("dgx-h100 · "));
  EXPECT_THAT(slurp(scratch.file("p-inputs.svg")), HasSubstr("speeds of the two"));
  const ChildResult again = tool({"plot", scratch.file("p.json"), "--out", scratch.file("again")});
  ASSERT_EQ(again.status, 0) << again.err;
  for (const char* kind : {"cost", "power", "inputs"}) {
    EXPECT_EQ(slurp(scratch.file(std::string("again/p-plan-") + kind + ".svg")),
              slurp(scratch.file(std::string("p-") + kind + ".svg")));
  }
}

TEST(PlanPictures, NeedAFolderBeforeTheSearchBegins) {
  const ChildResult none = ask_plan({"--systems", "dgx1-v100", "--plot", "/nosuch/p"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("no such folder"));
}

TEST(PlanWords, BoundsOfATimeHaveOneUnit) {
  EXPECT_EQ(app::time_text(119), "119 s");
  EXPECT_EQ(app::time_text(560), "9.33 min");
  EXPECT_EQ(app::time_range_text(104 * 60, 150 * 60), "1.73 h to 2.5 h");
  EXPECT_EQ(app::time_range_text(90, 150), "1.5 min to 2.5 min");
  EXPECT_EQ(app::time_range_text(5 * 60, 86400 * 3), "5 min to 3 d");
}

TEST(PlanAnswer, RunsWhereTheExecutorCan) {
  const auto run = [](const char* system, const char* nodes) {
    const ChildResult made = ask_plan({"--systems", system, "--nodes", nodes, "--format", "json"});
    EXPECT_EQ(made.status, 0) << made.err;
    return Json::parse(made.out, "plan").at("candidates").items().at(0);
  };
  const Json one = run("dgx-a100", "1");
  EXPECT_THAT(one.at("run").as_text(), testing::StartsWith("tandem run --model resnet50 "));
  EXPECT_THAT(one.at("run").as_text(), HasSubstr("--devices 8 "));
  EXPECT_THAT(one.at("run").as_text(), HasSubstr("--backend cuda --precision "));
  EXPECT_THAT(run("dgx-a100", "2").at("run").as_text(), testing::StartsWith("mpirun -np 2 tandem run "));
  EXPECT_EQ(run("mi300x-8x", "1").at("run").kind(), Json::Kind::null);
}

TEST(PlanAnswer, TwoOffersForOneMachineAreNoChance) {
  const std::string out = ask_plan({"--systems", "dgx-h100", "--rent"}).out;
  EXPECT_THAT(out,
              HasSubstr("The second is done as soon as the first: it is the same machine under another"));
  EXPECT_THAT(out, testing::Not(HasSubstr("probability")));
}

/// A report's question has the work; machines, numbers of nodes and ways are the plan's own.
TEST(PlanAnswer, TakesTheWorkFromAQuestion) {
  const Scratch scratch;
  const ChildResult report = tool({"predict", "--model", "resnet50", "--epochs", "1", "--system", "dgx1-v100",
                                   "--set", "nodes=2", "--devices", "16", "--batch", "8", "--format", "json",
                                   "--quiet", "--out", scratch.file("r.json")});
  ASSERT_EQ(report.status, 0) << report.err;
  const std::vector<std::string> rest = {"--systems", "dgx1-v100", "--global-batch",
                                         "256",       "--today",   "2026-11-29",
                                         "--format",  "csv",       "--quiet"};
  std::vector<std::string> words = {"plan", "--question", scratch.file("r.json")};
  words.insert(words.end(), rest.begin(), rest.end());
  const ChildResult asked = tool(words);
  ASSERT_EQ(asked.status, 0) << asked.err;
  EXPECT_EQ(asked.out, ask_plan({"--systems", "dgx1-v100", "--format", "csv"}).out);
}

TEST(PlanAnswer, CsvTellsTheKindAndWhatIsKept) {
  const std::string csv = ask_plan({"--systems", "dgx-a100", "--power", "1W", "--format", "csv"}).out;
  const auto lines = base::split(csv, '\n');
  EXPECT_THAT(lines.at(0), testing::EndsWith("offer,kind,spare nodes,in power,meets"));
  EXPECT_THAT(lines.at(1), testing::EndsWith(",0,false,false"));
}

TEST(PlanAnswer, AWholeNodeByCountIsTheMachine) {
  const ChildResult made =
      ask_plan({"--systems", "dgx-a100,dgx-a100:8", "--nodes", "1,2", "--format", "json"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(Json::parse(made.out, "plan").at("priced").as_int(), 2);
}

}  // namespace
}  // namespace tandem::tests

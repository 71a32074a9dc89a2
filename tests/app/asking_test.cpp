// SPDX-License-Identifier: Apache-2.0
// Questions from files: their options are the defaults of every verb that asks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The same document, whether the question comes from a file or from the command line.
void expect_same(const Words& from_file, const std::string& question, const Words& said) {
  const ChildResult file = tool(joined(from_file, {"--question", "-", "--quiet"}), question);
  const ChildResult line = tool(joined(said, {"--quiet"}));
  ASSERT_EQ(line.status, 0) << line.err;
  EXPECT_EQ(file.status, 0) << file.err;
  EXPECT_EQ(file.out, line.out);
}

std::string asked(const std::string& more, const std::string& system = "\"dgx1-v100\"") {
  return "{\"schema\": \"tandem-question-1\", \"model\": \"lenet5\", \"system\": " + system + ",\n" + more +
         "}";
}

TEST(QuestionFiles, AreAskedForAdvice) {
  const ChildResult report =
      tool({"predict",      "--model",     "lenet5",  "--system", "dgx1-v100",   "--set",  "host.cores=12",
            "--devices",    "1,2",         "--batch", "8",        "--optimizer", "adam",   "--scheme",
            "zero:stage=2", "--precision", "fp16",    "--format", "json",        "--quiet"});
  ASSERT_EQ(report.status, 0) << report.err;
  const Words said = {"advise", "--model",       "lenet5",    "--system", "dgx1-v100",
                      "--set",  "host.cores=12", "--devices", "2",        "--optimizer",
                      "adam",   "--precision",   "fp16"};
  expect_same({"advise"}, report.out, joined(said, {"--batch", "8"}));
  expect_same({"advise", "--global-batch", "64"}, report.out, joined(said, {"--global-batch", "64"}));
  expect_same({"advise", "--batch", "2", "--set", "host.cores=4"}, report.out,
              joined(said, {"--batch", "2", "--set", "host.cores=4"}));
  EXPECT_THAT(tool({"advise", "--question", "-"}, report.out).err,
              HasSubstr("of the question, scheme is not used here"));
}

TEST(QuestionFiles, AreAskedOfSeveralSystems) {
  const std::string file =
      asked(R"("batch": 8, "devices": [2], "precision": "fp16", "set": ["host.cores=12"])");
  const Words said = {"--model", "lenet5", "--devices", "2", "--precision", "fp16", "--set", "host.cores=12"};
  expect_same({"compare", "v100-pcie-8x", "dgx1-v100"}, file,
              joined(joined({"compare", "v100-pcie-8x", "dgx1-v100"}, said), {"--batch", "8"}));
  expect_same(
      {"compare", "v100-pcie-8x", "dgx1-v100", "--batch", "B:16"}, file,
      joined(joined({"compare", "v100-pcie-8x", "dgx1-v100"}, said), {"--batch", "A:8", "--batch", "B:16"}));
  expect_same({"compare", "--without", "nvlink"}, file,
              joined(joined({"compare", "dgx1-v100"}, said), {"--without", "nvlink", "--batch", "8"}));
  expect_same({"compare", "--set-b", "host.cores=4"}, file,
              joined(joined({"compare", "dgx1-v100"}, said), {"--set-b", "host.cores=4", "--batch", "8"}));
}

/// A file's cards are those of both sides: it says nothing of a change.
TEST(QuestionFiles, DescribeTheMachineThatIsChanged) {
  const std::string file = asked(R"("swap": "device=rtx-3090", "devices": 2)", "\"workstation-2x\"");
  const ChildResult swapped = tool({"compare", "--question", "-", "--swap", "device=rtx-4090"}, file);
  ASSERT_EQ(swapped.status, 0) << swapped.err;
  EXPECT_THAT(swapped.out, HasSubstr("A  lenet5 on workstation-2x with rtx-3090"));
  EXPECT_THAT(swapped.out, HasSubstr("rtx-4090"));
  const ChildResult same = tool({"compare", "--question", "-"}, file);
  EXPECT_EQ(same.status, 2);
  EXPECT_THAT(same.err, HasSubstr("one system is compared with a changed version"));
}

TEST(QuestionFiles, MayHoldTheMachine) {
  const std::string file =
      asked("\"devices\": 2",
            R"({"name": "own", "summary": "mine", "extends": "dgx1-v100", "set": {"host.cores": "8"}})");
  const ChildResult r = tool({"compare", "--question", "-", "--without", "nvlink"}, file);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("B  the same without nvlink"));
  const std::string wrong = asked("\"devices\": 2",
                                  "{\"name\": \"own\", \"summary\": \"mine\", \"extends\": \"dgx1-v100\",\n "
                                  "\"set\": {\"host.cores\": \"many\"}}");
  for (const Words& words : {Words{"compare", "--without", "nvlink"}, Words{"advise"}, Words{"predict"}}) {
    const ChildResult refused = tool(joined(words, {"--question", "-"}), wrong);
    EXPECT_EQ(refused.status, 3) << words[0];
    EXPECT_THAT(refused.err, HasSubstr(":2:")) << words[0];
  }
}

/// Wherever the file is wrong.
TEST(QuestionFiles, AreRefusedAtTheirPlace) {
  for (const Words& words :
       {Words{"advise"}, Words{"compare", "dgx1-v100", "v100-pcie-8x"}, Words{"predict"}}) {
    const auto refused = [&](const std::string& more) {
      const ChildResult r = tool(joined(words, {"--question", "-"}), asked(more));
      EXPECT_EQ(r.status, 3) << words[0];
      return r.err;
    };
    EXPECT_THAT(refused("\"precision\": \"fp23\""), HasSubstr(":2:14: precision"));
    EXPECT_THAT(refused("\"batch\": \"many\""), HasSubstr(":2:10: batch: \"many\" is not a whole number"));
    EXPECT_THAT(refused("\"devices\": [1,\n \"some\"]"), HasSubstr(":3:2: devices: \"some\""));
    EXPECT_THAT(refused("\"set\": [\"nodes=1\",\n \"nodes=none\"]"), HasSubstr(":3:2: set nodes=none: "));
    EXPECT_THAT(refused("\"without\": [\n \"nvlank\"]"), HasSubstr(":3:2: without nvlank: "));
    const ChildResult none = tool(joined(words, {"--question", "-"}),
                                  "{\"schema\": \"tandem-question-1\", \"system\": \"dgx1-v100\"}");
    EXPECT_EQ(none.status, 3) << words[0];
    EXPECT_THAT(none.err, HasSubstr("the key \"model\" is missing"));
  }
}

TEST(QuestionFiles, LoseWhatTheCommandLineEmpties) {
  const std::string file = asked(R"("epochs": 2, "set": ["host.cores=12"], "devices": 1)");
  const ChildResult r = tool({"predict", "--question", "-", "--epochs", "", "--set", ""}, file);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, Not(HasSubstr("epoch")));
  EXPECT_THAT(r.out, Not(HasSubstr("cores")));
}

TEST(QuestionFiles, AWordIsMissedWithoutOne) {
  const ChildResult r = tool({"compare", "--model", "lenet5"});
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("a word is missing"));
}

}  // namespace
}  // namespace tandem::tests

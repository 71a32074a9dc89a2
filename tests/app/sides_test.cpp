// SPDX-License-Identifier: Apache-2.0
// Whom options of compare change, unlike counts, and more than two machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/analysis/ops_text.h"
#include "app/console/table.h"
#include "base/text.h"
#include "tests/app/svg.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::vector<std::string> kTwo = {
    "compare", "workstation-2x", "workstation-4x", "--model", "lenet5", "--devices", "2"};

TEST(Sides, AnOptionHoldsForAllUnlessItSaysWhom) {
  const std::string both = tool(with(kTwo, {"--swap", "device=rtx-4090"})).out;
  EXPECT_THAT(both, HasSubstr("A  lenet5 on workstation-2x with rtx-4090"));
  EXPECT_THAT(both, HasSubstr("B  lenet5 on workstation-4x with rtx-4090"));
  const std::string one = tool(with(kTwo, {"--swap", "A:device=rtx-4090"})).out;
  EXPECT_THAT(one, HasSubstr("A  lenet5 on workstation-2x with rtx-4090"));
  EXPECT_THAT(one, Not(HasSubstr("workstation-4x with")));
  const std::string apart = tool(with(kTwo, {"--swap", "A:device=rtx-4090", "--swap", "B:device=rtx-3090",
                                             "--scheme", "B:horovod"}))
                                .out;
  EXPECT_THAT(apart, HasSubstr("workstation-4x with rtx-3090, horovod"));
  EXPECT_THAT(apart, HasSubstr("workstation-2x with rtx-4090, allreduce"));
}

TEST(Sides, WhatWouldBeTheSameOrIsNobodysIsRefused) {
  const ChildResult same =
      tool({"compare", "dgx1-v100", "dgx1-v100", "--without", "nvlink", "--model", "lenet5"});
  EXPECT_EQ(same.status, 2);
  EXPECT_THAT(same.err, HasSubstr("say to which side they apply"));
  EXPECT_EQ(tool({"compare", "dgx1-v100", "dgx1-v100", "--without", "B:nvlink", "--model", "lenet5"}).status,
            0);
  const ChildResult nobody = tool(with(kTwo, {"--swap", "C:device=rtx-4090"}));
  EXPECT_EQ(nobody.status, 2);
  EXPECT_THAT(nobody.err, HasSubstr("the last is B"));
  EXPECT_EQ(tool(with(kTwo, {"--batch", "A:8", "--batch", "A:16"})).status, 2);
}

TEST(Sides, OneSystemMayHaveAnotherScheme) {
  const ChildResult r = tool({"compare", "dgx1-v100", "--scheme", "A:horovod", "--scheme",
                              "B:parameter-server", "--model", "lenet5", "--devices", "4"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("A  lenet5 on dgx1-v100, horovod"));
  EXPECT_THAT(r.out, HasSubstr("B  lenet5 on dgx1-v100, parameter-server"));
}

TEST(Sides, UnlikeMachinesAreComparedWhole) {
  const ChildResult r =
      tool({"compare", "workstation-4x", "5090-2x", "--model", "resnet50", "--batch", "16"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\n4 and 2 "));
  EXPECT_THAT(r.out, ContainsRegex("resnet50: 2 devices are .* against 4 .*x for each device"));
  EXPECT_THAT(r.out, HasSubstr("Samples in a step: A 64, B 32"));
  EXPECT_THAT(r.out, ContainsRegex("Energy per sample, hosts not counted: A [0-9.]+ J, B [0-9.]+ J[.]"));
  const Json row = Json::parse(tool({"compare", "workstation-4x", "5090-2x", "--model", "resnet50",
                                     "--devices", "A:2", "--devices", "B:1", "--format", "json"})
                                   .out,
                               "compare")
                       .at("rows")
                       .items()[0];
  EXPECT_EQ(row.at("a").at("devices").as_int(), 2);
  EXPECT_EQ(row.at("b").at("devices").as_int(), 1);
}

TEST(Sides, ReportsOfUnlikeCountsTooAndWhatIsLeftIsTold) {
  const Scratch scratch;
  const auto ask = [&](const char* system, const char* devices, const char* file) {
    tool({"predict", "--model", "lenet5", "--system", system, "--devices", devices, "--format", "json",
          "--out", scratch.file(file)});
    return scratch.file(file);
  };
  const std::string four = ask("workstation-4x", "4", "a.json"), two = ask("5090-2x", "2", "b.json"),
                    more = ask("workstation-4x", "1,2,4", "c.json");
  EXPECT_THAT(tool({"compare", four, two}).out, HasSubstr("\n4 and 2 "));
  EXPECT_THAT(tool({"compare", more, two}).out, HasSubstr("Only A has 4 devices: "));
  const ChildResult three = tool({"compare", four, two, more, "--format", "json"});
  ASSERT_EQ(three.status, 0) << three.err;
  EXPECT_EQ(Json::parse(three.out, "several").at("rows").items().size(), 5U);
}

TEST(Sides, SeveralMachinesStandInOneTable) {
  const std::vector<std::string> ask = {"compare",   "4090-pcie-8x", "5090-2x",   "workstation-4x",
                                        "--model",   "lenet5",       "--devices", "A:4",
                                        "--devices", "B:2",          "--devices", "C:4"};
  const ChildResult text = tool(ask);
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* name : {"A  4090-pcie-8x", "B  5090-2x", "C  workstation-4x"})
    EXPECT_THAT(text.out, HasSubstr(name));
  const Json rows = Json::parse(tool(with(ask, {"--format", "json"})).out, "several");
  EXPECT_EQ(rows.at("schema").as_text(), "tandem-compare-several-1");
  ASSERT_EQ(rows.at("rows").items().size(), 3U);
  const Json& b = rows.at("rows").items()[1];
  EXPECT_NEAR(
      b.at("over_a").as_real(),
      b.at("samples_per_second").as_real() / rows.at("rows").items()[0].at("samples_per_second").as_real(),
      1e-9);
}

TEST(Sides, EachMayHaveItsOwnNumberOfCounts) {
  const std::vector<std::string> two = {"compare",   "workstation-4x", "5090-2x",   "--model", "lenet5",
                                        "--devices", "A:2,4",          "--devices", "B:2"};
  EXPECT_THAT(tool(two).out, HasSubstr("Only A has 4 devices: "));
  const Json json = Json::parse(tool(with(two, {"--format", "json"})).out, "compare");
  ASSERT_EQ(json.at("rows").items().size(), 1U);
  EXPECT_EQ(json.at("rows").items()[0].at("b").at("devices").as_int(), 2);
  EXPECT_EQ(json.at("unpaired").items().at(0).at("devices").as_int(), 4);
  const std::vector<std::string> three = {"compare",   "workstation-4x", "5090-2x",   "dgx1-v100",
                                          "--model",   "lenet5",         "--devices", "A:4",
                                          "--devices", "B:1,2",          "--devices", "C:4,8"};
  const ChildResult text = shell(
      "COLUMNS=80 \"$0\" compare workstation-4x 5090-2x dgx1-v100 --model lenet5 "
      "--devices A:4 --devices B:1,2 --devices C:4,8");
  EXPECT_THAT(text.out, ContainsRegex("B has 1 device, A 4: a device of B is .* times as fast as one of A"));
  for (const std::string& line : base::split(text.out, '\n'))
    EXPECT_LE(line.size(), 82U) << line;  // two of "·"
  const Json rows = Json::parse(tool(with(three, {"--format", "json"})).out, "several").at("rows");
  ASSERT_EQ(rows.items().size(), 5U);
  const Json& b = rows.items()[1];
  EXPECT_EQ(b.at("over_a_devices").as_int(), 4);
  EXPECT_NEAR(b.at("over_a_by_device").as_real(), 4 * b.at("over_a").as_real(), 1e-9);
}

TEST(Sides, WhereNothingFitsTheDocumentIsWrittenToo) {
  const ChildResult r = tool(
      {"compare", "2080ti-pcie-8x", "5090-2x", "--model", "llama3-8b", "--batch", "512", "--format", "json"});
  EXPECT_EQ(r.status, 3);
  const Json row = Json::parse(r.out, "compare").at("rows").items().at(0);
  EXPECT_FALSE(row.at("a").at("fits").as_bool());
  EXPECT_FALSE(row.at("b").at("fits").as_bool());
}

TEST(Sides, SeveralHaveAPicture) {
  const Scratch scratch;
  const ChildResult r = tool({"compare", "workstation-4x", "5090-2x", "dgx1-v100", "--model",
                              "lenet5,resnet50", "--batch", "8", "--plot", scratch.file("c"), "--quiet"});
  ASSERT_EQ(r.status, 0) << r.err;
  expect_sound(scratch.file("c.svg"));
  EXPECT_THAT(slurp(scratch.file("c.svg")), HasSubstr("resnet50: B 5090-2x on 2"));
}

TEST(Sides, EfficiencyOfBothCountsFromAsManyDevices) {
  // One device of A does not hold the model, one of B does.
  const Json row = Json::parse(tool({"compare", "v100-pcie-8x", "dgx-h100", "--model", "gpt2-xl", "--scheme",
                                     "zero:stage=3", "--precision", "fp16", "--optimizer", "adam", "--batch",
                                     "1", "--devices", "8", "--format", "json"})
                                   .out,
                               "compare")
                       .at("rows")
                       .items()[0];
  EXPECT_GT(row.at("a").at("speedup_base_devices").as_int(), 1);
  EXPECT_EQ(row.at("a").at("speedup_base_devices").as_int(), row.at("b").at("speedup_base_devices").as_int());
}

TEST(Sides, ACardThatComputesInStrictFp32HasAHint) {
  EXPECT_THAT(tool({"compare", "dgx1-v100", "dgx-a100", "--model", "resnet50", "--devices", "1"}).out,
              HasSubstr("B: --precision tf32 would give +"));
}

/// Ops that are ready together wait together: no lane waits for longer than a step takes.
TEST(CompareOps, WaitsThatOverlapCountOnce) {
  Report r;
  for (int i = 0; i < 4; ++i) {
    r.timeline.push_back({"worker", "comm", "waiting for worker 1", 0, 0, 0.0, 1.0 + i});
    r.timeline.push_back({"worker", "comm", "all-reduce " + std::to_string(i), 0, 0, 1.0 + i, 2.0 + i});
  }
  const OpComparison c = compare_ops(r, r);
  for (const OpPair& lane : c.lanes) {
    if (lane.lane == "waiting") EXPECT_DOUBLE_EQ(lane.a, 1);
    if (lane.lane == "comm") EXPECT_DOUBLE_EQ(lane.a, 4);
  }
}

/// A timeline of two of eight iterations shows the one with the average.
TEST(CompareOps, WhatHappensOnceAPeriodIsSharedByItsIterations) {
  Report r;
  r.setup.inputs = {{"scheme", "diloco"}, {"scheme.every", "8"}};
  r.timeline = {{"worker", "compute", "step", 0, 6, 0.0, 1.0},
                {"worker", "compute", "step", 0, 7, 1.0, 2.0},
                {"worker", "comm", "waiting for worker 1", 0, 7, 2.0, 6.0},
                {"worker", "comm", "average parameters", 0, 7, 6.0, 6.8}};
  for (const OpPair& lane : compare_ops(r, r).lanes) {
    if (lane.lane == "compute") EXPECT_DOUBLE_EQ(lane.a, 1);
    if (lane.lane == "waiting") EXPECT_DOUBLE_EQ(lane.a, 0.5);
    if (lane.lane == "comm") EXPECT_NEAR(lane.a, 0.1, 1e-12);
  }
}

TEST(CompareOps, TheTableOfOpsFitsEightyColumns) {
  const OpPair pair{"compute", "backward of a layer with a long name that goes on", 0.123456, 0.234567};
  for (const auto& [a, b] : {std::pair{"A", "B"}, std::pair{"A predicted", "B executed"}}) {
    const std::string text = op_table({pair, pair}, a, b, 20).text(true, 80);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 7) << text;
  }
}

}  // namespace
}  // namespace tandem::tests

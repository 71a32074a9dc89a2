// SPDX-License-Identifier: Apache-2.0
// What changes between two systems and why; elasticities; the map of link use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "answers/why.h"
#include "base/json.h"
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

const std::vector<std::string> kBoxes = {"compare",     "v100-pcie-8x", "dgx1-v100", "--scheme",
                                         "pytorch-ddp", "--precision",  "fp16"};

TEST(CompareSystems, NamesTheChangeAndItsCauseInALinePerModel) {
  const ChildResult result = tool(with(kBoxes, {"--model", "vgg16,resnet50"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("vgg16 on 8 devices: 1."));
  EXPECT_THAT(result.out, HasSubstr("x faster on dgx1-v100"));
  EXPECT_THAT(result.out, HasSubstr("because a step waits for communication"));
  EXPECT_THAT(result.out, HasSubstr("on v100-pcie-8x"));
  EXPECT_THAT(result.out, HasSubstr("socket"));
  EXPECT_THAT(result.out, HasSubstr("\nresnet50 on 8 devices: "));
}

TEST(CompareSystems, JsonTellsTheSameAsPredictDoes) {
  const Json rows =
      Json::parse(tool(with(kBoxes, {"--model", "vgg16", "--devices", "4", "--format", "json"})).out, "c");
  ASSERT_EQ(rows.at("rows").items().size(), 1u);
  const Json& row = rows.at("rows").items()[0];
  EXPECT_THAT(row.at("why").as_text(), HasSubstr("vgg16 on 4 devices"));
  const Json one =
      last_report(tool({"predict", "--model", "vgg16", "--system", "dgx1-v100", "--scheme", "pytorch-ddp",
                        "--precision", "fp16", "--devices", "4", "--format", "json"})
                      .out);
  EXPECT_EQ(row.at("b").at("samples_per_second").as_real(), one.at("samples_per_second").as_real());
}

TEST(CompareSystems, SetBChangesOneThingOfBOnly) {
  const std::vector<std::string> same = {"compare", "v100-pcie-8x", "v100-pcie-8x", "--model",
                                         "vgg16",   "--precision",  "fp16"};
  const ChildResult hurt = tool(with(same, {"--set-b", "faults.cpu0:cpu1=0.25"}));
  ASSERT_EQ(hurt.status, 0) << hurt.err;
  EXPECT_THAT(hurt.out, HasSubstr("x slower with faults.cpu0:cpu1=0.25"));
  EXPECT_THAT(hurt.out, HasSubstr("the socket link cpu0>cpu1"));
  EXPECT_THAT(tool(same).out, HasSubstr("no different"));
  const ChildResult both = tool(with(same, {"--set", "nodes=1", "--set-b", "nodes=1"}));
  EXPECT_THAT(both.out, HasSubstr("no different"));
}

TEST(CompareSystems, ReportsAreExplainedByWhatTheyHold) {
  const Scratch scratch;
  for (const char* system : {"v100-pcie-8x", "dgx1-v100"}) {
    ASSERT_EQ(tool({"predict", "--model", "vgg16", "--precision", "fp16", "--devices", "8", "--system",
                    system, "--format", "json", "--out", scratch.file(system)})
                  .status,
              0);
  }
  const ChildResult result = tool({"compare", scratch.file("v100-pcie-8x"), scratch.file("dgx1-v100")});
  EXPECT_THAT(result.out, HasSubstr("x faster on dgx1-v100"));
  EXPECT_THAT(result.out, HasSubstr("because a step waits for communication"));
}

/// What NVLink saves here is time that collectives over PCIe take from the kernels beside them.
TEST(CompareSystems, KernelsThatCollectivesSlowAreNoCompute) {
  const ChildResult result = tool({"compare", "v100-pcie-8x", "dgx1-v100", "--model", "resnet50", "--scheme",
                                   "horovod", "--precision", "fp16", "--devices", "8"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("because a step loses to collectives that slow its kernels"));
  EXPECT_THAT(result.out, HasSubstr("the socket link cpu0>cpu1"));
  EXPECT_THAT(result.out, Not(HasSubstr("a step computes for")));
}

/// 10 ms a sample against 4: kernels give 2.6 of them, communication 1.8 and what it takes from the
/// kernels 1.6.
TEST(CompareSystems, CommunicationBesideAndBetweenKernelsIsOneCause) {
  schemes::Report a, b;
  a.setup.samples_per_iteration = b.setup.samples_per_iteration = 8;
  a.rate.samples_per_second = 100;
  a.time.share.compute = 0.72, a.time.slowed = 0.22, a.time.share.exposed_communication = 0.28;
  b.rate.samples_per_second = 250;
  b.time.share.compute = 0.75, b.time.slowed = 0.15, b.time.share.exposed_communication = 0.25;
  EXPECT_THAT(app::why({a, b}).text,
              HasSubstr("because a step waits for communication for 8 instead of 22 ms"));
  a.time.slowed = 0.12;
  EXPECT_THAT(app::why({a, b}).text, HasSubstr("because a step computes for 19 instead of 48 ms"));
}

TEST(CompareSystems, TriesTheDevicesAndTheLinksAlone) {
  const auto json = [](const std::vector<std::string>& words) {
    return Json::parse(tool(with(words, {"--model", "vgg16", "--scheme", "pytorch-ddp", "--devices", "8",
                                         "--format", "json"}))
                           .out,
                       "json");
  };
  const Json row = json({"compare", "v100-pcie-8x", "dgx1-v100"}).at("rows").items()[0];
  const double a = row.at("a").at("samples_per_second").as_real();
  const auto rate = [&](const std::string& system, const std::string& model) {
    return json({"predict", "--system", system, "--set", "devices.gpu[0-7].model=" + model})
        .at("reports")
        .items()[0]
        .at("samples_per_second")
        .as_real();
  };
  EXPECT_NEAR(row.at("only_devices_changed_ratio").as_real(), rate("v100-pcie-8x", "v100-sxm2-16gb") / a,
              1e-9);
  EXPECT_NEAR(row.at("only_links_and_host_changed_ratio").as_real(), rate("dgx1-v100", "v100-pcie") / a,
              1e-9);
  const Json& interval = row.at("samples_per_second_ratio_interval");
  const double ratio = row.at("samples_per_second_ratio").as_real();
  EXPECT_LT(interval.at("low").as_real(), ratio);
  EXPECT_GT(interval.at("high").as_real(), ratio);
  EXPECT_THAT(row.at("why").as_text(), HasSubstr("with only links and host changed"));
}

TEST(CompareSystems, RatioOfTheSameCardsIsSurerThanTheirRates) {
  const Json row =
      Json::parse(
          tool({"compare", "a100-pcie-4x", "a100-pcie-4x-nvlink", "--model", "resnet50", "--format", "json"})
              .out,
          "json")
          .at("rows")
          .items()[0];
  const auto width = [](const Json& i) { return i.at("high").as_real() / i.at("low").as_real(); };
  EXPECT_LT(width(row.at("samples_per_second_ratio_interval")),
            0.9 * width(row.at("a").at("samples_per_second_interval")));
}

TEST(CompareSystems, CsvHoldsPlainNumbers) {
  const std::string csv = tool(with(kBoxes, {"--model", "vgg16", "--format", "csv"})).out;
  const auto line = csv.find('\n');
  ASSERT_NE(line, std::string::npos);
  const std::string head = csv.substr(0, line), row = csv.substr(line + 1);
  EXPECT_EQ(head.find(' '), std::string::npos) << head;
  EXPECT_EQ(row.find_first_of("% \""), std::string::npos) << row;
  EXPECT_EQ(std::count(head.begin(), head.end(), ','), std::count(row.begin(), row.end(), ','));
}

TEST(CompareSystems, SaysWhichSideDoesNotHoldTheModel) {
  const std::vector<std::string> both = {"compare", "v100-pcie-8x", "dgx-h100", "--model",
                                         "gpt2-xl", "--precision",  "fp16",     "--optimizer",
                                         "adam",    "--devices",    "2"};
  const std::vector<std::string> words = with(both, {"--batch", "1"});
  const ChildResult one = tool(words);
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("gpt2-xl on 2 devices: only B holds it, A needs "));
  const Json row = Json::parse(tool(with(words, {"--format", "json"})).out, "c").at("rows").items()[0];
  EXPECT_FALSE(row.at("a").at("fits").as_bool());
  EXPECT_GT(row.at("a").at("needs_bytes").as_int(), int64_t{16} << 30);
  EXPECT_EQ(row.at("samples_per_second_ratio").kind(), Json::Kind::null);
  EXPECT_GT(row.at("b").at("samples_per_second").as_real(), 0);
  const ChildResult none = tool(with(both, {"--batch", "4096"}));
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("not even one sample fits"));
}

const std::vector<std::string> kBoard = {"compare",  "2080ti-pcie-8x", "--model", "vgg16",
                                         "--scheme", "tf-replicated",  "--input", "synthetic"};

TEST(CompareBoard, TellsTheGainTheReasonTheBatchAndThePlacement) {
  const ChildResult result =
      tool(with(kBoard, {"--with-bridges", "2-3,4-5,6-7", "--devices", "4", "--batch", "56"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("B  the same with NVLink bridges 2-3,4-5,6-7"));
  EXPECT_THAT(result.out, HasSubstr("faster with NVLink bridges 2-3,4-5,6-7"));
  EXPECT_THAT(result.out, HasSubstr("without NVLink bridges 2-3,4-5,6-7 the ring crosses the pcie link"));
  EXPECT_THAT(result.out, ContainsRegex("vgg16 on 4 devices: B gains 3 % and more up to [0-9]+ images"));
  EXPECT_THAT(result.out, ContainsRegex("Which 4 devices on B: 0,1,2,3 as used.*2,3,4,5 would give"));
}

TEST(CompareBoard, JsonHoldsTheSweepAndItsLargestBatchIsTheLastThatIsWorthIt) {
  const Json rows = Json::parse(
      tool(with(kBoard, {"--with-bridges", "0-1", "--devices", "2", "--format", "json"})).out, "c");
  const Json& board = rows.at("rows").items()[0].at("board");
  int64_t largest = 0;
  for (const Json& at : board.at("batches").items()) {
    if (std::abs(at.at("samples_per_second_ratio").as_real() - 1) >= board.at("worth_from").as_real())
      largest = at.at("batch_per_device").as_int();
  }
  EXPECT_GT(largest, 0);
  EXPECT_EQ(board.at("largest_batch").as_int(), largest);
  EXPECT_EQ(board.at("placement").at("b").at("best").at("devices").as_text(), "0,1");
  EXPECT_LT(board.at("placement").at("b").at("worst").at("samples_per_second").as_real(),
            board.at("placement").at("b").at("used").at("samples_per_second").as_real());
}

TEST(CompareBoard, ARateMeasuredOnTheBoardHoldsForItsCardsOnBoth) {
  const auto rates = [](const std::string& measured) {
    const ChildResult result =
        tool({"compare", "2080ti-nvlink-8x", "--without", "nvlink", "--model", "vgg16", "--batch", "8",
              "--devices", "4", "--anchor", measured, "--format", "json"});
    const Json row = Json::parse(result.out, "out").at("rows").items()[0];
    return std::pair{row.at("a").at("samples_per_second").as_real(),
                     row.at("b").at("samples_per_second").as_real()};
  };
  const auto [slow_a, slow_b] = rates("200@4");
  EXPECT_NEAR(slow_a, 200, 1);
  EXPECT_LE(slow_b, slow_a);
  const auto [fast_a, fast_b] = rates("250@4");
  EXPECT_NEAR(fast_a, 250, 1);
  EXPECT_LT(fast_b, 0.95 * fast_a) << "faster cards wait for what takes as long as before";
  EXPECT_LT(fast_b / fast_a, slow_b / slow_a);
  const ChildResult other =
      tool({"compare", "2080ti-nvlink-8x", "v100-pcie-8x", "--model", "vgg16", "--anchor", "200@4"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("a rate of A's rtx-2080-ti and does not apply to B's v100-pcie"));
}

TEST(CompareBoard, PlaceIsTheOnlyChangeOrHoldsForBoth) {
  const ChildResult alone =
      tool({"compare", "2080ti-nvlink-8x", "--place", "2,3", "--model", "vgg16", "--batch", "4"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("x faster on devices 2,3"));
  EXPECT_THAT(alone.out, HasSubstr("on its first devices the ring crosses"));
  const ChildResult both = tool({"compare", "2080ti-nvlink-8x", "--place", "0,1", "--without", "nvlink",
                                 "--model", "vgg16", "--batch", "4"});
  EXPECT_THAT(both.out, HasSubstr("no different without nvlink"));
}

TEST(CompareBoard, SaysWhatIsWrong) {
  const ChildResult nothing = tool({"compare", "2080ti-pcie-8x", "--model", "vgg16"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--with-bridges"));
  const ChildResult one = tool({"compare", "report.json"});
  EXPECT_EQ(one.status, 3);
  const ChildResult swap = tool({"compare", "2080ti-pcie-8x", "--swap", "gpu=t4", "--model", "vgg16"});
  EXPECT_EQ(swap.status, 2);
  EXPECT_THAT(swap.err, HasSubstr("device=NAME"));
  const ChildResult bridge = tool({"compare", "4090-pcie-8x", "--with-bridges", "0-1", "--model", "vgg16"});
  EXPECT_EQ(bridge.status, 3);
  EXPECT_THAT(bridge.err, HasSubstr("--with-bridges 0-1: gpu0 is a rtx-4090"));
}

TEST(CompareSystems, SaysWhatIsWrong) {
  const ChildResult names = tool({"compare", "v100-pcie-8x", "dgx1-v100"});
  EXPECT_EQ(names.status, 2);
  EXPECT_THAT(names.err, HasSubstr("--model"));
  const ChildResult batch = tool({"compare", "a.json", "b.json", "--batch", "3"});
  EXPECT_EQ(batch.status, 2);
  EXPECT_THAT(batch.err, HasSubstr("--batch"));
  const ChildResult unknown = tool({"compare", "v100-pcie-8x", "dgx1-v10", "--model", "vgg16"});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_THAT(unknown.err, HasSubstr("dgx1-v100"));
  EXPECT_EQ(tool({"compare", "v100-pcie-8x", "dgx1-v100", "--model", "vgg16,"}).status, 3);
  EXPECT_EQ(tool({"compare", "v100-pcie-8x", "dgx1-v100", "--model", "vgg16", "--devices", "9"}).status, 3);
}

double rate(const std::vector<std::string>& more) {
  return last_report(tool(with({"predict", "--model", "vgg16", "--system", "v100-pcie-8x", "--precision",
                                "fp16", "--devices", "4", "--format", "json"},
                               more))
                         .out)
      .at("samples_per_second")
      .as_real();
}

/// That the elasticity of PCIe's bandwidth is the difference of predictions to `within`.
void expect_finite_differences(const std::vector<std::string>& more, double within) {
  const ChildResult result =
      tool(with({"predict", "--model", "vgg16", "--system", "v100-pcie-8x", "--precision", "fp16",
                 "--devices", "4", "--elasticities", "--format", "json"},
                more));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out, "e");
  EXPECT_EQ(json.at("schema").as_text(), "tandem-elasticities-1");
  double last = 1e9, found = -1;
  for (const Json& row : json.at("rows").items()) {
    const double e = row.at("elasticity").as_real();
    EXPECT_LE(std::abs(e), last) << "sorted";
    last = std::abs(e);
    if (row.at("resource").as_text() == "links.pcie.bandwidth") found = e;
  }
  const double up = rate(with({"--set", "links.pcie.bandwidth=15907500000B/s"}, more)),
               down = rate(with({"--set", "links.pcie.bandwidth=15594059405.940594B/s"}, more));
  EXPECT_NEAR(found, std::log(up / down) / (2 * std::log(1.01)), within);
  EXPECT_GT(found, 0.05);
}

TEST(Elasticities, AreTheFiniteDifferencesOfPredictions) {
  expect_finite_differences({"--jitter", "0.02"}, 1e-4);
  expect_finite_differences({"--jitter", "0"}, 1e-4);
  expect_finite_differences({}, 0.005);  // these have the host's noise, the elasticity has not
}

TEST(Elasticities, SayWhatUnlimitedResourcesWouldGive) {
  const std::vector<std::string> ask = {"predict",     "--model", "vgg16",     "--system", "v100-pcie-8x",
                                        "--precision", "fp16",    "--devices", "4",        "--format",
                                        "json"};
  const Json json = Json::parse(tool(with(ask, {"--elasticities"})).out, "e");
  double sum = 0;
  for (const Json& row : json.at("rows").items()) {
    sum += row.at("elasticity").as_real();
    if (row.at("resource").as_text() != "links.pcie.bandwidth") continue;
    EXPECT_NEAR(row.at("gain_if_unlimited").as_real(),
                rate({"--set", "links.pcie.bandwidth=15750GB/s"}) / rate({}) - 1, 1e-9);
  }
  EXPECT_NEAR(sum, 1, 0.1) << "all of a step's time belongs to some resource";
  const Json bound = last_report(tool(ask).out).at("bottleneck");
  const Json& first = json.at("rows").items()[0];
  EXPECT_EQ(bound.at("resource").as_text(), first.at("resource").as_text());
  EXPECT_EQ(bound.at("elasticity").as_real(), first.at("elasticity").as_real());
  EXPECT_EQ(bound.at("gain_if_unlimited").as_real(), first.at("gain_if_unlimited").as_real());
}

TEST(Elasticities, AServerThatIsBusyAllTheTimeIsTheBottleneck) {
  const Json bound = last_report(
      tool({"predict", "--model", "vgg16", "--system", "dgx1-v100", "--scheme", "parameter-server:mode=async",
            "--precision", "fp16", "--devices", "8", "--format", "json"})
          .out);
  EXPECT_EQ(bound.at("bottleneck").at("resource").as_text(), "server");
  EXPECT_GT(bound.at("bottleneck").at("elasticity").as_real(), 0.8);
  EXPECT_GT(bound.at("time_share").at("server").as_real(), 0.5);
}

TEST(Predict, SaysOfASettingThatChangesNothing) {
  EXPECT_THAT(tool(small_predict({"--set", "network.bandwidth=50GB/s"})).out,
              HasSubstr("--set network.bandwidth=50GB/s changes nothing"));
  EXPECT_THAT(tool(small_predict({"--set", "devices.gpu[0-7].model=v100-pcie"})).out,
              Not(HasSubstr("changes nothing")));
}

TEST(Elasticities, OfAnAnchoredPredictionKeepTheAnchor) {
  // Fitting the anchor again on the changed machine would hide the change.
  const ChildResult result =
      tool({"predict", "--model", "vgg16", "--system", "v100-pcie-8x", "--precision", "fp16", "--devices",
            "8", "--anchor", "1500@8", "--elasticities", "--format", "csv"});
  double sum = 0;
  for (std::size_t at = 0; (at = result.out.find("bandwidth,", at)) != std::string::npos; ++at) {
    const auto comma = result.out.find(',', at + 10);
    sum += std::stod(result.out.substr(comma + 1));
  }
  EXPECT_GT(sum, 0.1) << result.out;
}

TEST(Elasticities, AreATableWithAColumnPerDeviceCount) {
  const ChildResult result = tool(small_predict({"--elasticities"}));
  EXPECT_THAT(result.out, ContainsRegex("1 device +unlimited +2 devices +unlimited"));
  EXPECT_THAT(result.out, HasSubstr("compute"));
  EXPECT_THAT(result.out, Not(HasSubstr("network.bandwidth"))) << "one node has no use for it";
}

TEST(LinkMap, IsDrawnFromAReportOfAStockSystem) {
  const Scratch scratch;
  ASSERT_EQ(tool({"predict", "--model", "vgg16", "--system", "dgx-h100", "--set", "nodes=2", "--devices",
                  "16", "--format", "json", "--out", scratch.file("r.json")})
                .status,
            0);
  const ChildResult drawn =
      tool({"plot", scratch.file("r.json"), "--kind", "links", "--out", scratch.file("")});
  if (drawn.status == 4) GTEST_SKIP() << drawn.err;  // no gnuplot here
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(slurp(scratch.file("r-links.png")).substr(1, 3), "PNG");
  const std::string svg = slurp(scratch.file("r-links.svg"));
  for (const char* name : {"gpu7", "nvswitch0", "nic3", "network"}) EXPECT_THAT(svg, HasSubstr(name));
  const ChildResult wrong = tool({"plot", scratch.file("r.json"), "--kind", "links", "--system",
                                  "workstation-2x", "--out", scratch.file("")});
  EXPECT_EQ(wrong.status, 3);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// predict, compare, collective and export by what they promise about the figures.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/console/table.h"
#include "base/json.h"
#include "base/text.h"
#include "schemes/report/report.h"
#include "tests/app/tool.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Json predict_json(std::vector<std::string> more) {
  more.insert(more.end(), {"--format", "json"});
  const ChildResult result = tool(small_predict(std::move(more)));
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out, "stdout");
}

TEST(Predict, DocumentHasOneShapeForAnyNumberOfDeviceCounts) {
  for (const char* devices : {"2", "1,2"}) {
    const ChildResult result = tool(
        {"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", devices, "--format", "json"});
    const Json document = Json::parse(result.out, "stdout");
    EXPECT_EQ(document.at("schema").as_text(), "tandem-reports-2");
    EXPECT_EQ(document.at("reports").items().back().at("devices").as_int(), 2);
  }
}

TEST(Predict, BatchIsCountedOverAllDevicesAndTokensOfSequences) {
  const Json images = predict_json({"--batch", "16"}).at("reports").items()[1];
  EXPECT_EQ(images.at("samples_per_iteration").as_int(), 32);
  EXPECT_EQ(images.find("tokens_per_second"), nullptr);
  const Json sequences = last_report(tool({"predict", "--model", "gpt2:layers=2", "--system", "dgx1-v100",
                                           "--batch", "1", "--devices", "1", "--format", "json"})
                                         .out);
  EXPECT_DOUBLE_EQ(sequences.at("tokens_per_second").as_real(),
                   1024 * sequences.at("samples_per_second").as_real());
}

/// More than a V100 holds alone, less than two hold together.
std::vector<std::string> large(std::vector<std::string> more) {
  std::vector<std::string> words = {"predict",     "--model", "gpt2-xl:layers=30", "--system", "dgx1-v100",
                                    "--precision", "fp16",    "--batch",           "1",        "--optimizer",
                                    "adam"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(PredictFit, WhatDoesNotFitIsARowAndTheOthersCountFromTheFewestThatDo) {
  const ChildResult result =
      tool(large({"--scheme", "zero:stage=3", "--devices", "1,2,4", "--format", "json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "stdout");
  const auto& reports = document.at("reports").items();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_FALSE(reports[0].at("fits").as_bool());
  const Json& memory = reports[0].at("memory_bytes_per_device");
  EXPECT_EQ(reports[0].at("needs_bytes").as_int(), memory.at("nvidia_smi").as_int());
  EXPECT_GT(memory.at("nvidia_smi").as_int(), memory.at("capacity").as_int());
  EXPECT_EQ(reports[0].at("samples_per_second").kind(), Json::Kind::null);
  for (const Json& r : {reports[1], reports[2]}) {
    EXPECT_TRUE(r.at("fits").as_bool());
    EXPECT_EQ(r.find("needs_bytes"), nullptr);
    EXPECT_EQ(r.at("speedup_base_devices").as_int(), 2);
    const double ratio = r.at("samples_per_second").as_real() / reports[1].at("samples_per_second").as_real();
    EXPECT_DOUBLE_EQ(r.at("speedup").as_real(), ratio);
    EXPECT_DOUBLE_EQ(r.at("scaling_efficiency").as_real(), 2 * ratio / r.at("devices").as_real());
  }
  const std::string text = tool(large({"--scheme", "zero:stage=3", "--devices", "1,2,4"})).out;
  EXPECT_THAT(text, HasSubstr("does not fit: needs "));
  EXPECT_THAT(text, HasSubstr("Speed-up and efficiency count from 2 devices, the fewest (or fewest whole "
                              "nodes) that hold the model."));
}

TEST(PredictFit, WithoutAnyRowThatFitsTheAdviceIsTriedAndNeverTheSchemeInUse) {
  const ChildResult sharded = tool(large({"--scheme", "zero:stage=3", "--devices", "1", "--format", "json"}));
  EXPECT_EQ(sharded.status, 3);
  const Json remedy = last_report(sharded.out).at("remedies").items().back();
  EXPECT_EQ(remedy.at("changes").items()[0].at("option").as_text(), "swap");
  EXPECT_THAT(sharded.err, HasSubstr("at least 2 devices"));
  EXPECT_THAT(sharded.err, ::testing::Not(HasSubstr("--scheme zero:stage=3")));
  const ChildResult copies = tool(large({"--scheme", "allreduce", "--devices", "1,2"}));
  EXPECT_EQ(copies.status, 3);
  EXPECT_THAT(copies.err, HasSubstr("what would fit: --scheme zero:stage=3"));
  EXPECT_THAT(copies.err, ::testing::Not(HasSubstr("at least"))) << "more copies do not help";
}

TEST(PredictFit, WeightsThatAreNotLearnedMayBeStoredInHalf) {
  std::vector<std::string> asked = {"predict",
                                    "--model",
                                    "llama2-7b",
                                    "--system",
                                    "a100-pcie-8x",
                                    "--scheme",
                                    "pytorch-ddp",
                                    "--batch",
                                    "1",
                                    "--precision",
                                    "bf16",
                                    "--optimizer",
                                    "adamw",
                                    "--adapter",
                                    "lora:rank=16",
                                    "--devices",
                                    "1"};
  const ChildResult half = tool(asked);
  EXPECT_EQ(half.status, 0) << "as recipes load them: " << half.err;
  EXPECT_THAT(half.out, HasSubstr("all others kept in bf16"));
  asked.insert(asked.end(), {"--memory", "weights=fp32"});
  const ChildResult wide = tool(asked);
  EXPECT_EQ(wide.status, 3);
  EXPECT_THAT(wide.err, HasSubstr("what would fit: --memory weights=half"));
}

TEST(PredictFit, ElasticitiesAreOfDeviceCountsThatHoldTheModel) {
  const auto asked = large({"--scheme", "zero:stage=3", "--devices", "1,2", "--elasticities"});
  const ChildResult text = tool(asked);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("1 device cannot hold the model."));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("now +2 devices +unlimited\n"));
  auto json = asked;
  json.insert(json.end(), {"--format", "json"});
  const Json document = Json::parse(tool(json).out, "stdout");
  for (const Json& row : document.at("rows").items()) {
    const bool fits = row.at("devices").as_int() == 2;
    EXPECT_EQ(row.at("fits").as_bool(), fits);
    EXPECT_EQ(row.at("elasticity").kind() == Json::Kind::null, !fits);
    EXPECT_EQ(row.at("gain_if_unlimited").kind() == Json::Kind::null, !fits);
  }
  const ChildResult none = tool(large({"--scheme", "zero:stage=3", "--devices", "1", "--elasticities"}));
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, HasSubstr("at least 2 devices"));
}

TEST(PredictFit, AdviceSaysHowManyNodesItTakes) {
  const ChildResult result =
      tool({"predict", "--model", "gpt3-175b", "--system", "dgx-a100-80gb", "--scheme", "fsdp", "--precision",
            "bf16", "--batch", "1", "--devices", "8", "--recompute", "blocks"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, ::testing::ContainsRegex("at least [0-9]+ devices \\(--set nodes=[0-9]+\\)"));
}

TEST(Predict, AllDevicesOfAnyBoxAreAmongTheDefaults) {
  const ChildResult three =
      tool({"predict", "--model", "lenet5", "--system", "3090-nvlink-3x", "--format", "csv"});
  EXPECT_EQ(three.status, 0) << three.err;
  EXPECT_EQ(std::count(three.out.begin(), three.out.end(), '\n'), 4) << "1, 2 and 3 devices under a head";
}

TEST(Predict, AnAnchorThatCannotBeMetIsNotClaimed) {
  const ChildResult result = tool(small_predict({"--anchor", "1e9"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("cannot be met"));
  EXPECT_EQ(result.out.find("Anchored at"), std::string::npos);
}

TEST(Predict, TextNamesTheJobsBeside) {
  const ChildResult result = tool(small_predict({"--with", "2 alexnet horovod 8"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("beside alexnet on 2 devices · horovod"));
  EXPECT_THAT(result.out, HasSubstr("Side by side: "));
  EXPECT_THAT(result.out, HasSubstr("; alexnet on 2 devices "));
}

TEST(Predict, NetworksInTurnAreNamedAndBadOnesRefused) {
  const ChildResult result = tool(small_predict({"--then", "4 resnet20-cifar 16"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("then 4 passes of resnet20-cifar"));
  const ChildResult bad = tool(small_predict({"--then", "four"}));
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("PASSES MODEL [BATCH]"));
  EXPECT_EQ(tool(small_predict({"--then", "0 resnet20-cifar"})).status, 2);
  const ChildResult anchored = tool(small_predict({"--then", "1 alexnet", "--anchor", "100"}));
  EXPECT_EQ(anchored.status, 3);
  EXPECT_THAT(anchored.err, HasSubstr("anchor"));
}

TEST(Predict, ReportHoldsWhatTheContractNames) {
  const Json report = predict_json({}).at("reports").items()[1];
  for (const char* key : {"engine",
                          "evaluator",
                          "tandem_version",
                          "seed",
                          "inputs",
                          "samples_per_second",
                          "samples_per_second_interval",
                          "iteration_seconds",
                          "speedup",
                          "scaling_efficiency",
                          "speedup_base_devices",
                          "staleness",
                          "time_share",
                          "memory_bytes_per_device",
                          "bottleneck",
                          "links",
                          "calibrated",
                          "extrapolates",
                          "simulated_events",
                          "fits",
                          "recipe",
                          "samples_per_iteration"}) {
    EXPECT_NE(report.find(key), nullptr) << key;
  }
  const Json& share = report.at("time_share");
  double total = 0;
  for (const char* part :
       {"compute", "launch", "exposed_communication", "waiting", "bubble", "input", "server", "idle"})
    total += share.at(part).as_real();
  EXPECT_NEAR(total, 1.0, 1e-9);
  const Json& memory = report.at("memory_bytes_per_device");
  int64_t sum = 0;
  for (const char* part : {"parameters", "gradients", "optimizer", "activations", "workspace", "buffers"}) {
    sum += memory.at(part).as_int(0);
  }
  EXPECT_EQ(memory.at("total").as_int(), sum);
  EXPECT_NEAR(report.at("scaling_efficiency").as_real(), report.at("speedup").as_real() / 2, 1e-9);
  EXPECT_LT(report.at("samples_per_second_interval").at("low").as_real(),
            report.at("samples_per_second").as_real());
}

TEST(Predict, AnchorIsMet) {
  const Json reports = predict_json({"--anchor", "1000"});
  const Json& one = reports.at("reports").items()[0];
  EXPECT_NEAR(one.at("samples_per_second").as_real(), 1000, 20);
  EXPECT_TRUE(one.at("calibrated").as_bool());
}

TEST(Predict, TableNamesWhatWasAsked) {
  const ChildResult result = tool(small_predict({"--scheme", "pytorch-ddp", "--batch", "16"}));
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* text :
       {"lenet5", "dgx1-v100", "pytorch-ddp", "16 images per device", "devices", "samples/s", "90 % interval",
        "speed-up", "efficiency", "memory/device", "bound by", "Uncalibrated"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_EQ(result.out.find("staleness"), std::string::npos);
  const ChildResult async = tool(small_predict({"--scheme", "parameter-server:mode=async"}));
  EXPECT_THAT(async.out, HasSubstr("staleness"));
}

/// Compute is what 1 % more would help most with one process for all cards, but the cards wait for half the
/// step.
TEST(Predict, SaysWhereTheRestOfAStepGoes) {
  std::vector<std::string> asked = {
      "predict",   "--model", "vgg16", "--system", "2080ti-pcie-8x", "--scheme", "pytorch-dataparallel",
      "--devices", "1,4"};
  const std::string text = tool(asked).out;
  asked.insert(asked.end(), {"--format", "json"});
  const Json document = Json::parse(tool(asked).out, "stdout");
  const Json& share = document.at("reports").items()[1].at("time_share");
  const auto percent = [&](const char* key) {
    return fmt::format("{:.0f} %", 100 * share.at(key).as_real());
  };
  EXPECT_GT(share.at("exposed_communication").as_real(), 0.3);
  EXPECT_THAT(text, HasSubstr("A step on 4 devices computes for " + percent("compute") + " of its time; "));
  EXPECT_THAT(text, ::testing::ContainsRegex("communication that compute does not hide [(]most: [a-z_]+[)] " +
                                             percent("exposed_communication")));
  asked = {"predict", "--model", "vgg16", "--system", "2080ti-pcie-8x", "--devices", "1"};
  EXPECT_THAT(tool(asked).out, ::testing::Not(HasSubstr("A step on")));
}

TEST(Predict, JitterIsOfTheStepAsTheSystemsIs) {
  const Json own = predict_json({"--reproducible"}),
             named = predict_json({"--reproducible", "--jitter", "0.01"});
  const Json none = predict_json({"--reproducible", "--jitter", "0"});
  const auto rate = [](const Json& json) {
    return json.at("reports").items()[1].at("samples_per_second").as_real();
  };
  ASSERT_EQ(System::load("dgx1-v100").host().jitter, 0.01);
  EXPECT_EQ(rate(own), rate(named));
  EXPECT_GT(rate(none), rate(own)) << "the step waits for the slower of two";
}

TEST(Predict, ReportFileStaysSmallAndItsTimelineWhole) {
  // Pushing every tensor on its own makes the most ops that a step of this model can have.
  const ChildResult result = tool({"predict", "--model", "resnet50", "--system", "dgx1-v100", "--devices",
                                   "8", "--scheme", "parameter-server:bucket=0B", "--format", "json"});
  EXPECT_LT(result.out.size(), 400'000u);
  const Report report = reports_from_json(Json::parse(result.out, "stdout"))[0];
  std::set<uint32_t> iterations;
  for (const TimelineEntry& e : report.timeline) {
    if (e.role == "worker" && e.instance == 0) iterations.insert(e.iteration);
  }
  EXPECT_EQ(iterations.size(), 2u);
}

TEST(Predict, SaysWhereAServerOnGpusIsWithoutAny) {
  const std::vector<std::string> words = {"predict",     "--model",   "lenet5", "--system",
                                          "skylake-opa", "--devices", "2",      "--scheme"};
  const auto ask = [&](const char* scheme) {
    std::vector<std::string> all = words;
    all.emplace_back(scheme);
    return tool(all).out;
  };
  EXPECT_THAT(ask("parameter-server:server=gpu"),
              HasSubstr("server=gpu keeps the parameters on the devices"));
  EXPECT_THAT(ask("parameter-server"), ::testing::Not(HasSubstr("server=gpu")));
}

TEST(Compare, OfAReportWithItselfIsOne) {
  const Scratch scratch;
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", scratch.file("a.json")})).status, 0);
  const ChildResult result =
      tool({"compare", scratch.file("a.json"), scratch.file("a.json"), "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "stdout");
  for (const Json& row : document.at("rows").items()) {
    EXPECT_EQ(row.at("samples_per_second_ratio").as_real(), 1.0);
  }
  EXPECT_THAT(tool({"compare", scratch.file("a.json"), scratch.file("a.json")}).out, HasSubstr("1.000"));
}

TEST(Collective, BusBandwidthFollowsTheDefinition) {
  const ChildResult result = tool({"collective", "--system", "dgx1-v100", "--devices", "8", "--from", "1MiB",
                                   "--to", "4MiB", "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "stdout");
  EXPECT_EQ(document.at("schema").as_text(), "tandem-collective-1");
  ASSERT_EQ(document.at("rows").items().size(), 3u);
  for (const Json& row : document.at("rows").items()) {
    const double algbw = row.at("algbw_bytes_per_second").as_real();
    EXPECT_NEAR(algbw, row.at("bytes").as_real() / row.at("seconds").as_real(), 1e-6 * algbw);
    EXPECT_NEAR(row.at("busbw_bytes_per_second").as_real(), 1.75 * algbw, 1e-6 * algbw);
  }
}

TEST(Collective, StandsBesideAMeasuredLog) {
  const Scratch scratch;
  const std::string log =
      scratch.write("log.txt", "1048576 262144 float sum -1 100.0 10.49 18.35 0 101.0 10.38 18.17 0\n");
  const ChildResult result = tool({"collective", "--system", "dgx1-v100", "--against", log});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1048576"));
  EXPECT_THAT(result.out, HasSubstr("100.00"));
}

TEST(Export, ChromeTraceHoldsEveryOpOfTheTimeline) {
  const Scratch scratch;
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", scratch.file("a.json")})).status, 0);
  const ChildResult result = tool({"export", "chrome-trace", scratch.file("a.json")});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "stdout");
  std::size_t spans = 0;
  for (const Json& event : document.at("traceEvents").items()) {
    if (event.at("ph").as_text() != "X" || event.at("cat").as_text() == "user_annotation") continue;
    ++spans;
    EXPECT_GE(event.at("dur").as_real(), 0);
  }
  EXPECT_EQ(spans, load_reports(scratch.file("a.json")).back().timeline.size());
}

std::vector<Json> spans_of(const Json& trace) {
  std::vector<Json> out;
  for (const Json& event : trace.at("traceEvents").items()) {
    if (event.at("ph").as_text() == "X") out.push_back(event);
  }
  return out;
}

TEST(Export, ChromeTraceBeginsAtZeroWithNamesThatTraceToolsKnow) {
  const Scratch scratch;
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", scratch.file("a.json")})).status, 0);
  const Json trace = Json::parse(tool({"export", "chrome-trace", scratch.file("a.json")}).out, "stdout");
  double first = 1e9;
  std::set<std::string> categories;
  std::set<int64_t> processes;
  for (const Json& event : spans_of(trace)) {
    first = std::min(first, event.at("ts").as_real());
    const std::string category = event.at("cat").as_text(), name = event.at("name").as_text();
    categories.insert(category);
    processes.insert(event.at("pid").as_int(0));
    const Json* stream = event.at("args").find("stream");
    EXPECT_EQ(stream != nullptr, category == "kernel" || category == "gpu_memcpy") << name;
    if (stream == nullptr) continue;
    EXPECT_EQ(stream->as_int(), event.at("tid").as_int());
    EXPECT_EQ(name.rfind("ncclKernel", 0) == 0, stream->as_int() == 20) << name;
    EXPECT_EQ(name.rfind("Memcpy", 0) == 0, category == "gpu_memcpy") << name;
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(processes, (std::set<int64_t>{0, 1})) << "the ranks";
  for (const char* category : {"kernel", "gpu_memcpy", "user_annotation"})
    EXPECT_EQ(categories.count(category), 1u);
}

TEST(Export, ChromeTraceOfOneRankIsThatWorkerAlone) {
  const Scratch scratch;
  ASSERT_EQ(tool(small_predict({"--format", "json", "--out", scratch.file("a.json")})).status, 0);
  const Json trace =
      Json::parse(tool({"export", "chrome-trace", scratch.file("a.json"), "--rank", "1"}).out, "stdout");
  EXPECT_EQ(trace.at("distributedInfo").at("rank").as_int(), 1);
  EXPECT_EQ(trace.at("distributedInfo").at("world_size").as_int(), 2);
  const std::vector<Json> spans = spans_of(trace);
  EXPECT_FALSE(spans.empty());
  for (const Json& event : spans) EXPECT_EQ(event.at("pid").as_int(), 1);
  EXPECT_EQ(tool({"export", "chrome-trace", scratch.file("a.json"), "--rank", "2"}).status, 2);
  EXPECT_EQ(tool({"export", "simgrid", "dgx1-v100", "--rank", "0"}).status, 2);
}

TEST(Pipes, ReportsAreReadFromStandardInput) {
  const Scratch scratch;
  const std::string report = tool(small_predict({"--format", "json"})).out;
  const std::string file = scratch.write("a.json", report);
  EXPECT_EQ(tool({"export", "chrome-trace", "-"}, report).out, tool({"export", "chrome-trace", file}).out);
  EXPECT_EQ(tool({"compare", "-", file, "--format", "csv"}, report).out,
            tool({"compare", file, file, "--format", "csv"}).out);
  const ChildResult drawn = tool({"plot", "-", "--kind", "scaling", "--out", scratch.file("p")}, report);
  if (drawn.status == 4) GTEST_SKIP() << drawn.err;  // no gnuplot here
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(slurp(scratch.file("p/stdin-scaling.png")).substr(1, 3), "PNG");
  const ChildResult nothing = tool({"plot", "-"}, "{");
  EXPECT_EQ(nothing.status, 3);
  EXPECT_THAT(nothing.err, HasSubstr("stdin:1:"));
}

/// The cells of one line of a csv file without quoted fields.
std::vector<std::string> cells_of(const std::string& csv, std::size_t line) {
  return split(split(csv, '\n')[line], ',');
}

/// Every cell is a number, a plain word or nothing: no thousands separators, no units, no per cents.
void expect_plain(const std::string& csv) {
  EXPECT_EQ(csv.find_first_of("\"% "), std::string::npos) << csv;
  const std::vector<std::string> heads = cells_of(csv, 0);
  EXPECT_EQ(cells_of(csv, 1).size(), heads.size());
  for (const std::string& head : heads)
    EXPECT_EQ(head.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos);
}

TEST(Compare, CsvHoldsPlainNumbersOfBothSides) {
  const std::string csv = tool({"compare", "v100-pcie-8x", "dgx1-v100", "--model", "resnet50", "--scheme",
                                "pytorch-ddp", "--format", "csv"})
                              .out;
  expect_plain(csv);
  const std::vector<std::string> heads = cells_of(csv, 0), row = cells_of(csv, 1);
  const auto cell = [&](const char* head) {
    return row.at(static_cast<std::size_t>(std::find(heads.begin(), heads.end(), head) - heads.begin()));
  };
  const double a = std::stod(cell("a_samples_per_second")), b = std::stod(cell("b_samples_per_second"));
  EXPECT_NEAR(std::stod(cell("ratio")), b / a, 1e-6);
  EXPECT_LT(std::stod(cell("a_samples_per_second_low")), a);
  EXPECT_GT(std::stod(cell("b_samples_per_second_high")), b);
  EXPECT_EQ(cell("b_scheme"), "pytorch-ddp");
  EXPECT_EQ(cell("a_fits"), "true");
}

TEST(Collective, CsvHoldsPlainNumbersUnderNamesWithUnits) {
  const std::vector<std::string> ask = {"collective", "--system", "dgx1-v100", "--sizes", "1MiB", "--format"};
  const auto in = [&](const char* format) {
    auto words = ask;
    words.emplace_back(format);
    return tool(words).out;
  };
  const std::string csv = in("csv");
  expect_plain(csv);
  const Json json = Json::parse(in("json"), "stdout").at("rows").items()[0];
  const std::vector<std::string> heads = cells_of(csv, 0), row = cells_of(csv, 1);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Json* same = json.find(heads[i]);
    if (same == nullptr || same->kind() == Json::Kind::text) continue;
    EXPECT_NEAR(std::stod(row[i]), same->as_real(), 1e-6 * same->as_real()) << heads[i];
  }
}

TEST(Predict, TextOfLanguageModelsNamesTokensAndTheGlobalBatch) {
  const std::string text =
      tool({"predict", "--model", "gpt2:layers=2", "--system", "dgx1-v100", "--batch", "1", "--devices", "2"})
          .out;
  EXPECT_THAT(text, HasSubstr("1 sequence of 1,024 tokens per device"));
  EXPECT_THAT(text, ::testing::ContainsRegex("tokens/s +global batch"));
  EXPECT_THAT(tool(small_predict()).out, ::testing::Not(HasSubstr("global batch")));
}

TEST(Predict, ReportsCanLeaveTheTimelineOut) {
  const Json whole = predict_json({}), short_one = predict_json({"--no-timeline"});
  EXPECT_FALSE(whole.at("reports").items()[0].at("timeline").items().empty());
  EXPECT_TRUE(short_one.at("reports").items()[0].at("timeline").items().empty());
}

TEST(Table, AlignsByCharactersAndQuotesCsv) {
  Table table({{"a"}, {"n", true}});
  table.add({"µs", "1"});
  table.add({"x, \"y\"", "10"});
  EXPECT_EQ(table.text(), "a         n\nµs        1\nx, \"y\"   10\n");
  EXPECT_EQ(table.csv(), "a,n\nµs,1\n\"x, \"\"y\"\"\",10\n");
  EXPECT_EQ(grouped(1234567.4), "1,234,567");
  EXPECT_EQ(grouped(0.5), "0.500");
  EXPECT_EQ(grouped(-1234), "-1,234");
}

TEST(PredictStragglers, SlowTheStepOfAllByTheirFactor) {
  const auto rate = [](const Json& document) {
    return document.at("reports").items().back().at("samples_per_second").as_real();
  };
  const std::vector<std::string> calm = {"--reproducible", "--jitter", "0", "--batch", "256"};
  auto slow = calm, pausing = calm;
  slow.insert(slow.end(), {"--stragglers", "share=1,slow=2"});
  const Json all = predict_json(slow);
  EXPECT_GT(rate(predict_json(calm)) / rate(all), 1.3);
  EXPECT_LE(rate(predict_json(calm)) / rate(all), 2);
  const Json& report = all.at("reports").items().back();
  EXPECT_EQ(report.at("inputs").at("stragglers").as_text(), "share=1,slow=2");
  EXPECT_THAT(report.at("notes").items().back().as_text(),
              HasSubstr("2 of 2 devices stragglers (gpu0, gpu1)"));
  // A pause a second of work, each 0.1 s long: two devices that meet lose about twice that of a step.
  pausing.insert(pausing.end(), {"--pauses", "every=1s,for=0.1s"});
  const double lost = rate(predict_json(calm)) / rate(predict_json(pausing)) - 1;
  EXPECT_GT(lost, 0.1);
  EXPECT_LT(lost, 0.3);
}

/// With Adam in fp32 a checkpoint holds 12 bytes of each of lenet5's 61,706 parameters.
Json goodput_of(std::vector<std::string> more) {
  more.insert(more.end(), {"--optimizer", "adam", "--no-timeline"});
  return predict_json(more).at("reports").items().back().at("goodput");
}

TEST(PredictFailures, ACheckpointIsTheStateOverTheStorage) {
  const Json g = goodput_of({"--mtbf", "100h", "--set", "host.shared_storage=1MB/s"});
  const double bytes = 12 * 61706;
  EXPECT_EQ(g.at("checkpoint_bytes").as_int(), static_cast<int64_t>(bytes));
  EXPECT_DOUBLE_EQ(g.at("checkpoint_seconds").as_real(), bytes / 1e6);
  EXPECT_DOUBLE_EQ(g.at("restart_seconds").as_real(), bytes / 1e6) << "it is read back";
  EXPECT_DOUBLE_EQ(g.at("mtbf_seconds").as_real(), 50 * 3600) << "of two devices";
  EXPECT_NEAR(g.at("optimal_interval_seconds").as_real(), std::sqrt(2 * bytes / 1e6 * 50 * 3600), 1);
  EXPECT_NEAR(g.at("share").as_real(), g.at("share_by_events").as_real(), 0.01);
  // A node's failures come on top; this one has a single node.
  EXPECT_DOUBLE_EQ(goodput_of({"--mtbf", "100h", "--node-mtbf", "50h"}).at("mtbf_seconds").as_real(),
                   25 * 3600);
}

/// Four nodes of eight devices each, before `more`.
std::vector<std::string> four_nodes(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"predict", "--model", "lenet5", "--system", "ethernet-cluster",
                                  "--set",   "nodes=4", "--mtbf", "800h",     "--no-timeline"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(PredictFailures, NodesWriteTheirPartOfAStateThatIsSpread) {
  const auto cost = [](const char* scheme) {
    const auto words = four_nodes(
        {"--devices", "32", "--scheme", scheme, "--format", "json", "--set", "host.local_storage=1MB/s"});
    return last_report(tool(words).out).at("goodput").at("checkpoint_seconds").as_real();
  };
  EXPECT_DOUBLE_EQ(cost("allreduce") / cost("zero:stage=1"), 4);
}

TEST(PredictFailures, AnIntervalIsWholeSteps) {
  const Json g = goodput_of({"--mtbf", "100h", "--checkpoint-every", "500", "--checkpoint-cost", "2s"});
  EXPECT_EQ(g.at("checkpoint_interval_steps").as_int(), 500);
  EXPECT_EQ(g.at("checkpoint_seconds").as_real(), 2);
  const Json minutes = goodput_of({"--mtbf", "100h", "--checkpoint-every", "10min"});
  EXPECT_NEAR(minutes.at("checkpoint_interval_seconds").as_real(), 600, 0.01);
}

TEST(PredictFailures, WaitingSparesAndFewerNodesAreSetSideBySide) {
  const auto words = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--devices", "32", "--repair-time", "10h", "--restart-time", "1min",
                             "--checkpoint-cost", "1s"});
    return four_nodes(more);
  };
  const Json g = last_report(tool(words({"--format", "json"})).out).at("goodput");
  EXPECT_EQ(g.at("one_node_less").at("devices").as_int(), 24);
  const Json fewer = last_report(tool({"predict", "--model", "lenet5", "--system", "ethernet-cluster",
                                       "--set", "nodes=4", "--devices", "24", "--format", "json"})
                                     .out);
  EXPECT_DOUBLE_EQ(g.at("one_node_less").at("samples_per_second").as_real(),
                   fewer.at("samples_per_second").as_real());
  const auto& others = g.at("alternatives").items();
  ASSERT_EQ(others.size(), 2u);
  EXPECT_GT(others[0].at("share").as_real(), g.at("share").as_real()) << "fewer nodes beat waiting";
  EXPECT_GT(others[1].at("share").as_real(), g.at("share").as_real()) << "so does a spare";
  const Json elastic = last_report(tool(words({"--elastic", "--format", "json"})).out).at("goodput");
  EXPECT_EQ(elastic.at("share").as_real(), others[0].at("share").as_real());
  EXPECT_NEAR(elastic.at("share_by_events").as_real(), elastic.at("share").as_real(), 0.01);
  EXPECT_THAT(tool(words({})).out, HasSubstr("with 1 spare"));
}

}  // namespace
}  // namespace tandem::tests

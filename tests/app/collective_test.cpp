// SPDX-License-Identifier: Apache-2.0
// tandem collective and the imports that feed it, as a user runs them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cmath>

#include <cmath>
#include <fstream>

#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

/// A log whose times are 20 us plus the bytes at 50 GB/s.
std::string log_text() {
  std::string out =
      "# nThread 1 nGpus 8 minBytes 1024 maxBytes 67108864 step: 2(factor) warmup iters: 5 iters: 20\n";
  for (int i = 0; i < 8; ++i)
    out += "#  Rank  " + std::to_string(i) + " Group  0 Pid 1 on host device  " + std::to_string(i) +
           " [0x07] A100\n";
  for (int64_t bytes = 1024; bytes <= int64_t{64} << 20; bytes *= 2) {
    const double us = 20 + static_cast<double>(bytes) / 50e3;
    char line[200];
    std::snprintf(line, sizeof line, "%12ld %12ld float sum -1 %8.2f %7.2f %7.2f 0\n",
                  static_cast<long>(bytes), static_cast<long>(bytes / 4), us,
                  static_cast<double>(bytes) / us / 1e3, static_cast<double>(bytes) / us / 1e3 * 1.75);
    out += line;
  }
  return out;
}

TEST(Collective, TakesSizesAsARangeOrAList) {
  const auto rows = [](const std::string& sizes) {
    const auto result = tool({"collective", "--system", "dgx-a100", "--sizes", sizes, "--format", "json"});
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<int64_t> out;
    const Json document = Json::parse(result.out, "out");
    for (const Json& row : document.at("rows").items()) out.push_back(row.at("bytes").as_int());
    return out;
  };
  EXPECT_EQ(rows("1KiB..8KiB"), (std::vector<int64_t>{1024, 2048, 4096, 8192}));
  EXPECT_EQ(rows("1MiB,3MiB"), (std::vector<int64_t>{1 << 20, 3 << 20}));
  EXPECT_EQ(tool({"collective", "--system", "dgx-a100", "--sizes", "8KiB..1KiB"}).status, 2);
  EXPECT_EQ(tool({"collective", "--system", "dgx-a100", "--sizes", "8KiB,"}).status, 2);
}

TEST(Collective, KnowsEveryKindOfNcclTests) {
  for (const char* kind : {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all",
                           "gather", "scatter", "sendrecv"}) {
    const auto result = tool(
        {"collective", "--system", "dgx-a100", "--kind", kind, "--sizes", "1MiB,1GiB", "--format", "json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json document = Json::parse(result.out, "out");
    EXPECT_EQ(document.at("kind").as_text(), kind);
    for (const Json& row : document.at("rows").items()) {
      EXPECT_GT(row.at("seconds").as_real(), 0);
      EXPECT_GT(row.at("busbw_bytes_per_second").as_real(), 0);
    }
  }
}

TEST(Collective, TellsWhatTheLinksAllowFromWhatTheLibraryDoes) {
  const auto result = tool({"collective", "--system", "dgx-a100", "--sizes", "1GiB", "--format", "json"});
  const Json row = Json::parse(result.out, "out").at("rows").items()[0];
  EXPECT_LT(row.at("best_seconds").as_real(), row.at("seconds").as_real());
  const auto best = tool(
      {"collective", "--system", "dgx-a100", "--sizes", "1GiB", "--format", "json", "--algorithm", "best"});
  EXPECT_DOUBLE_EQ(Json::parse(best.out, "out").at("rows").items()[0].at("seconds").as_real(),
                   row.at("best_seconds").as_real());
  EXPECT_EQ(tool({"collective", "--system", "dgx-a100", "--kind", "gather", "--algorithm", "best"}).status,
            2);
}

/// What tandem measure wrote of a machine stands beside the prediction, with the library's own estimates.
TEST(Collective, PrintsTheLibrarysOwnEstimates) {
  const Scratch scratch;
  const std::string file = scratch.write("m.json", R"({"schema": "tandem-measurements-1", "machine": "m",
    "date": "2026-01-01", "versions": "v", "cores": 8, "graphs": [], "kernels": [], "copy": [], "all_reduce": [
    {"ranks": 4, "bytes": 1048576, "seconds": 0.00005},
    {"ranks": 8, "bytes": 1048576, "seconds": 0.0001, "library_seconds": 0.00008},
    {"ranks": 8, "bytes": 1024, "seconds": 0.00002}]})");
  const auto result = tool({"collective", "--system", "dgx-a100", "--log", file, "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "out");
  EXPECT_EQ(document.at("devices").as_int(), 8);
  const auto& rows = document.at("rows").items();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_DOUBLE_EQ(rows[1].at("measured_seconds").as_real(), 1e-4);
  EXPECT_DOUBLE_EQ(rows[1].at("library_seconds").as_real(), 8e-5);
  EXPECT_EQ(rows[0].find("library_seconds"), nullptr) << "not known of that size";
  const std::string text = tool({"collective", "--system", "dgx-a100", "--log", file}).out;
  EXPECT_NE(text.find("library's own us"), std::string::npos) << text;
  EXPECT_NE(text.find("own estimates are off by"), std::string::npos) << text;
  const auto four = tool({"collective", "--system", "dgx-a100", "--log", file, "--devices", "4"});
  EXPECT_EQ(four.status, 0) << four.err;
  EXPECT_EQ(four.out.find("library's own"), std::string::npos);
  const auto three = tool({"collective", "--system", "dgx-a100", "--log", file, "--devices", "3"});
  EXPECT_EQ(three.status, 3);
  EXPECT_NE(three.err.find("no all-reduce of 3 devices"), std::string::npos) << three.err;
}

TEST(Collective, CalibratesByEverySecondSizeAndJudgesByTheOthers) {
  const Scratch scratch;
  const std::string log = scratch.write("log.txt", log_text());
  const auto result =
      tool({"collective", "--system", "dgx-a100", "--log", log, "--calibrate", "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "out");
  EXPECT_EQ(document.at("devices").as_int(), 8);
  const Json stock = Json::parse(
      tool({"collective", "--system", "dgx-a100", "--log", log, "--format", "json"}).out, "stock");
  int calibrating = 0, judged = 0;
  double error = 0, stock_error = 0;  // of the sizes that are judged, sums of logarithms
  for (const Json& row : document.at("rows").items()) {
    const double ratio = row.at("seconds").as_real() / row.at("measured_seconds").as_real();
    if (row.at("calibrates").as_bool()) {
      ++calibrating;
      EXPECT_NEAR(ratio, 1, 1e-6) << row.at("bytes").as_int();
    } else {
      ++judged;
      error += std::abs(std::log(ratio));
      for (const Json& other : stock.at("rows").items()) {
        if (other.at("bytes").as_int() != row.at("bytes").as_int()) continue;
        stock_error +=
            std::abs(std::log(other.at("seconds").as_real() / other.at("measured_seconds").as_real()));
      }
    }
  }
  EXPECT_EQ(calibrating, 9);
  EXPECT_EQ(judged, 8);
  EXPECT_LT(error, 0.1 * judged);  // 10 % in the mean, though a straight line knows no protocols
  EXPECT_LT(error, stock_error / 3);
  const auto text = tool({"collective", "--system", "dgx-a100", "--log", log, "--calibrate"});
  EXPECT_NE(text.out.find("Calibrated by every second power of two"), std::string::npos) << text.out;
  EXPECT_EQ(tool({"collective", "--system", "dgx-a100", "--calibrate"}).status, 2);
}

TEST(Collective, TakesAnImportedProfile) {
  const Scratch scratch;
  const std::string log = scratch.write("log.txt", log_text()), profile = scratch.file("profile.json");
  ASSERT_EQ(tool({"import", "nccl-tests", log, "--kind", "all-reduce", "--out", profile}).status, 0);
  const auto result = tool(
      {"collective", "--system", "dgx-a100", "--profile", profile, "--sizes", "4MiB", "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NEAR(Json::parse(result.out, "out").at("rows").items()[0].at("seconds").as_real(),
              20e-6 + (4 << 20) / 50e9, 1e-6);
  EXPECT_EQ(tool({"collective", "--system", "dgx-a100", "--profile", profile, "--kind", "broadcast"}).status,
            3);
}

/// A log of two runs on eight ranks: all-reduces and all-gathers that take half as long.
std::string two_runs() {
  std::string out;
  for (const bool reduce : {true, false}) {
    out += "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n";
    for (int i = 0; i < 8; ++i)
      out +=
          "#  Rank  " + std::to_string(i) + " Group  0 Pid 1 on a device  0 [0x01] NVIDIA A100-SXM4-40GB\n";
    for (int k = 16; k <= 28; ++k) {
      const auto bytes = static_cast<double>(int64_t{1} << k), us = (20 + bytes / 100e3) * (reduce ? 2 : 1);
      out += fmt::format("{} {} float {} -1 {:.2f} {:.2f} {:.2f} 0 {:.2f} {:.2f} {:.2f} 0\n", int64_t{1} << k,
                         (int64_t{1} << k) / (reduce ? 4 : 32), reduce ? "sum" : "none", us,
                         bytes / us * 1e-3, bytes / us * (reduce ? 1.75e-3 : 0.875e-3), us, bytes / us * 1e-3,
                         bytes / us * (reduce ? 1.75e-3 : 0.875e-3));
    }
  }
  return out;
}

TEST(Collective, ShowsEveryRunOfALog) {
  const Scratch scratch;
  const std::string log = scratch.write("log.txt", two_runs());
  const auto both = tool({"collective", "--system", "dgx-a100", "--log", log, "--format", "json"});
  ASSERT_EQ(both.status, 0) << both.err;
  const Json document = Json::parse(both.out, "out");
  EXPECT_EQ(document.at("schema").as_text(), "tandem-collectives-1");
  ASSERT_EQ(document.at("runs").items().size(), 2u);
  EXPECT_EQ(document.at("runs").items()[1].at("kind").as_text(), "all-gather");
  const auto one =
      tool({"collective", "--system", "dgx-a100", "--log", log, "--kind", "all-gather", "--format", "json"});
  EXPECT_EQ(Json::parse(one.out, "out").at("kind").as_text(), "all-gather");
  const std::string text = tool({"collective", "--system", "dgx-a100", "--log", log, "--calibrate"}).out;
  EXPECT_NE(text.find("all-reduce of 8 devices"), std::string::npos) << text;
  EXPECT_NE(text.find("all-gather of 8 devices"), std::string::npos) << text;
  EXPECT_NE(text.find("By plain interpolation"), std::string::npos) << text;
  EXPECT_NE(tool({"collective", "--system", "dgx-a100", "--log", log, "--format", "csv"})
                .out.find("all-gather,8,65536"),
            std::string::npos);
  const auto other = tool({"collective", "--system", "dgx-a100", "--log", log, "--kind", "broadcast"});
  EXPECT_EQ(other.status, 3);
  EXPECT_NE(other.err.find("one of all-reduce, all-gather, not broadcast"), std::string::npos) << other.err;
}

TEST(Collective, AsksAboutAllDevicesOfALargeSystem) {
  const auto result = tool(
      {"collective", "--system", "dgx-a100", "--set", "nodes=200", "--sizes", "1MiB", "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out, "out").at("devices").as_int(), 1600);
}

/// A profile of all-reduces on eight devices that take `factor` times as long as stock figures say.
std::string slower(const std::string& system, double factor) {
  const auto stock = tool({"collective", "--system", system, "--sizes", "1KiB..1GiB", "--format", "json"});
  const Json document = Json::parse(stock.out, "out");
  std::string points;
  for (const Json& row : document.at("rows").items())
    points += fmt::format("{}{{\"bytes\": {}, \"seconds\": {}}}", points.empty() ? "" : ", ",
                          row.at("bytes").as_int(), factor * row.at("seconds").as_real());
  return R"({"schema": "tandem-collective-profile-1", "source": "mine", "kind": "all-reduce", "devices": 8,
    "points": [)" +
         points + "]}";
}

TEST(Collective, OneOperationCorrectsItsSiblingsWithAnInterval) {
  const Scratch scratch;
  const std::string profile = scratch.write("profile.json", slower("dgx-a100", 1.5));
  const std::vector<std::string> ask = {"collective", "--system",         "dgx-a100", "--kind", "all-gather",
                                        "--sizes",    "64KiB,16MiB,4GiB", "--format", "json"};
  std::vector<std::string> with = ask;
  with.insert(with.end(), {"--profile", profile});
  const auto before = tool(ask), after = tool(with);
  ASSERT_EQ(after.status, 0) << after.err;
  const Json stock = Json::parse(before.out, "out"), corrected = Json::parse(after.out, "out");
  EXPECT_TRUE(corrected.at("calibrated").as_bool());
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& row = corrected.at("rows").items()[i];
    const double seconds = row.at("seconds").as_real(),
                 high = row.at("seconds_interval").at("high").as_real();
    EXPECT_NEAR(seconds / stock.at("rows").items()[i].at("seconds").as_real(), 1.5, 1e-6) << i;
    if (i < 2) EXPECT_NEAR(high / seconds, 1.17, 1e-6) << "within the measured sizes";
    if (i == 2) EXPECT_NE(high / seconds, 1.17) << "beyond them the interval is the stock one";
  }
  const auto exchange =
      tool({"collective", "--system", "dgx-a100", "--profile", profile, "--kind", "all-to-all"});
  EXPECT_EQ(exchange.status, 3);
  EXPECT_NE(exchange.err.find("does not help with all-to-all"), std::string::npos) << exchange.err;
}

TEST(Collective, AProfileSaysNothingOfOtherNumbersOfDevices) {
  const Scratch scratch;
  const std::string log = scratch.write("log.txt", two_runs()), profile = scratch.file("profile.json");
  ASSERT_EQ(tool({"import", "nccl-tests", log, "--kind", "all-reduce", "--out", profile}).status, 0);
  const std::vector<std::string> ask = {"collective", "--system", "dgx-a100",
                                        "--devices",  "4",        "--sizes",
                                        "16MiB",      "--set",    "communication.library=nccl-2.12",
                                        "--format",   "json"};
  std::vector<std::string> with = ask;
  with.insert(with.end(), {"--profile", profile});
  const auto stock = tool(ask), four = tool(with);
  EXPECT_EQ(four.status, 0) << four.err;
  EXPECT_NE(four.err.find("measured on 8 devices, which does not help with all-reduce among 4"),
            std::string::npos)
      << four.err;
  EXPECT_EQ(four.out, stock.out);
}

TEST(Collective, ManyDevicesKeepWithinWhatTheLinksAllow) {
  for (const char* devices : {"512", "2048"}) {
    const auto result = tool({"collective", "--system", "dgx-h100", "--set", "nodes=256", "--devices",
                              devices, "--sizes", "1GiB", "--format", "json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json row = Json::parse(result.out, "out").at("rows").items()[0];
    EXPECT_GT(row.at("best_seconds").as_real(), 0);
    EXPECT_LE(row.at("best_seconds").as_real(), row.at("seconds").as_real()) << devices;
    EXPECT_LT(row.at("seconds_interval").at("low").as_real(), row.at("seconds").as_real()) << devices;
  }
}

/// Collectives of training are corrected by what was measured: here all take three times as long.
TEST(Predict, TakesMeasuredCollectives) {
  const Scratch scratch;
  const std::string profile = scratch.write("profile.json", slower("dgx1-v100", 3));
  const std::vector<std::string> ask = {
      "predict",   "--model", "vgg16",    "--system", "dgx1-v100",     "--scheme", "allreduce:overlap=off",
      "--devices", "4,8",     "--format", "json",     "--reproducible"};
  std::vector<std::string> with = ask;
  with.insert(with.end(), {"--collective-profile", profile});
  const auto before = tool(ask), after = tool(with);
  ASSERT_EQ(after.status, 0) << after.err;
  const auto rate = [](const std::string& out, std::size_t report) {
    return Json::parse(out, "out").at("reports").items()[report].at("samples_per_second").as_real();
  };
  EXPECT_DOUBLE_EQ(rate(before.out, 0), rate(after.out, 0)) << "four devices were not measured";
  EXPECT_LT(rate(after.out, 1), 0.95 * rate(before.out, 1));
  EXPECT_NE(after.out.find("all-reduce of 8 devices corrected by"), std::string::npos);
  EXPECT_NE(after.out.find("\"collective_profile\": \"mine\""), std::string::npos);
  const Json document = Json::parse(after.out, "out");
  EXPECT_GT(document.at("reports").items()[1].at("bottleneck").at("elasticity").as_real(), 0)
      << "what was measured does not hide what the links do";
  EXPECT_EQ(
      tool({"compare", "dgx1-v100", "dgx2", "--model", "vgg16", "--collective-profile", profile}).status, 2);
  EXPECT_NE(after.out.find("all-reduce of 4 devices: the collective profile says nothing of it"),
            std::string::npos);
}

TEST(Collective, DrawsBusBandwidth) {
  const Scratch scratch;
  const auto result = tool({"collective", "--system", "dgx-a100", "--log",
                            scratch.write("log.txt", log_text()), "--plot", scratch.file("plot")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GT(std::filesystem::file_size(scratch.file("plot.png")), 2000u);
  EXPECT_GT(std::filesystem::file_size(scratch.file("plot.svg")), 2000u);
}

TEST(ImportP2p, SetsASystemToMeasuredLinks) {
  const Scratch scratch;
  const std::string test = scratch.write("p2p.txt",
                                         "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n  "
                                         " D\\D     0      1\n     0 1500.0  240.00\n"
                                         "     1  240.00 1500.0\nUnidirectional P2P=Disabled Bandwidth "
                                         "Matrix (GB/s)\n   D\\D     0      1\n     0 1500.0"
                                         "  9.00\n     1  9.00 1500.0\n");
  const auto figures = tool({"import", test});
  ASSERT_EQ(figures.status, 0) << figures.err;
  EXPECT_DOUBLE_EQ(
      Json::parse(figures.out, "out").at("peer_bytes_per_second").items()[0].items()[1].as_real(), 240e9);
  const std::string system = scratch.file("box.json");
  const auto set = tool({"import", "p2p", test, "--system", "dgx-a100", "--out", system});
  ASSERT_EQ(set.status, 0) << set.err;
  EXPECT_NE(set.err.find("links.nvlink.achieved: 0.92 -> 0.8"), std::string::npos) << set.err;
  EXPECT_NE(set.err.find("staged_cap"), std::string::npos) << set.err;
  EXPECT_EQ(tool({"collective", "--system", system, "--sizes", "1MiB"}).status, 0);
}

}  // namespace
}  // namespace tandem::tests

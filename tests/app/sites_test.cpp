// SPDX-License-Identifier: Apache-2.0
// Training by workers at sites with unlike lines: the slowest line sets how long they take to come together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

constexpr int64_t kEvery = 8;

/// Seconds of one average by four workers of a node each, at three sites.
double outer_step(const std::string& lines) {
  const Scratch scratch;
  const std::string file = scratch.write("sites.json", fmt::format(R"({{
    "name": "sites", "summary": "s", "extends": "dgx-h100",
    "set": {{"nodes": "4", "network": {{"block": "sites", "sites": {{{}}}, "attach": "cpu0",
             "bandwidth": "10Gbit/s", "latency": "100us",
             "transport": {{"name": "tcp", "latency": "1ms", "gpudirect": "none"}}}}}}}})",
                                                                   lines));
  std::vector<std::string> words = split(
      "predict --model gpt2-xl:sequence=512 --devices 32 --batch 8 --precision bf16 --optimizer adamw "
      "--input "
      "synthetic --recompute blocks --format json --quiet --no-timeline",
      ' ');
  words.insert(
      words.end(),
      {"--system", file, "--scheme",
       fmt::format("diloco:every={},worker=node,sharding=3,compression=int8,algorithm=ring", kEvery)});
  const ChildResult result = tool(words);
  EXPECT_EQ(result.status, 0) << result.err;
  const Json r = last_report(result.out);
  const double step = r.at("samples_per_iteration").as_real() / r.at("samples_per_second").as_real();
  return r.at("time_share").at("exposed_communication").as_real() * step * kEvery;
}

TEST(Sites, TheSlowestLineSetsTheOuterStep) {
  const std::string first = R"("a": {"nodes": 2, "bandwidth": "5Gbit/s"}, "b": {"bandwidth": "5Gbit/s"}, )";
  const double even = outer_step(first + R"("c": {"bandwidth": "5Gbit/s"})"),
               slow = outer_step(first + R"("c": {"bandwidth": "1Gbit/s"})"),
               slower = outer_step(first + R"("c": {"bandwidth": "500Mbit/s"})");
  // A ring of four sends a byte of each of 1.56e9 parameters 1.5 times over every line.
  const double wire = 1.5 * 1.56e9 / 62.5e6;
  EXPECT_NEAR(slower / wire, 1, 0.05);
  EXPECT_NEAR(slow / wire, 0.5, 0.03);
  EXPECT_NEAR(even / wire, 0.1, 0.01);
}

TEST(Sites, WhatIsWrongOfThemIsOneMessage) {
  const Scratch scratch;
  for (const std::string sites :
       {"", R"("a": {"nodes": 3, "bandwidth": "1Gbit/s"})", R"("a": {"bandwidth": "1"})",
        R"("a": {"bandwidht": "1Gbit/s"})", R"("a>b": {"bandwidth": "1Gbit/s"})"}) {
    const std::string file = scratch.write("wrong.json", fmt::format(R"({{
      "name": "sites", "summary": "s", "extends": "dgx-h100",
      "set": {{"nodes": "4", "network": {{"block": "sites", "sites": {{{}}}, "bandwidth": "10Gbit/s", "latency": "10ms",
               "transport": {{"name": "tcp", "latency": "1ms", "gpudirect": "none"}}}}}}}})",
                                                                     sites));
    const ChildResult result = tool({"show", "system", file});
    EXPECT_EQ(result.status, 3) << sites;
    EXPECT_NE(result.err.find("wrong.json:3:"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// The time to a target counts what failures take, wherever it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kAsk = {"predict",   "--model",   "gpt2", "--system",
                                       "dgx1-v100", "--devices", "8",    "--batch",
                                       "1",         "--format",  "json", "--no-timeline"};
const std::vector<std::string> kFailing = {
    "--mtbf", "1000h", "--restart-time", "1h", "--checkpoint-cost", "10min", "--repair-time", "12h"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(TimeToTarget, CountsFailuresForEveryTarget) {
  for (const auto& target :
       {std::vector<std::string>{"--tokens", "1e9"},
        {"--samples", "1e6"},
        {"--epochs", "2", "--epoch-samples", "1e6"},
        {"--target-loss", "3.5", "--noise-scale", "100", "--samples-to-target", "40000@32"}}) {
    const Json plain = last_report(tool(with(kAsk, target)).out);
    const ChildResult result = tool(with(with(kAsk, target), kFailing));
    ASSERT_EQ(result.status, 0) << result.err;
    const Json failing = last_report(result.out);
    const double share = failing.at("goodput").at("share").as_real();
    EXPECT_LT(share, 0.9);
    for (const char* key : {"seconds", "seconds_low", "seconds_high"})
      EXPECT_NEAR(failing.at("progress").at(key).as_real() * share, plain.at("progress").at(key).as_real(),
                  1e-6 * plain.at("progress").at(key).as_real())
          << target[0];
    EXPECT_EQ(failing.at("progress").at("goodput_share").as_real(), share);
  }
}

TEST(TimeToTarget, IsInTextCsvComparisonAndAdvice) {
  const std::vector<std::string> ask = {"--model", "gpt2", "--devices", "8",
                                        "--batch", "1",    "--tokens",  "1e9"};
  const auto text = tool(with(with({"predict", "--system", "dgx1-v100"}, ask), kFailing)).out;
  EXPECT_THAT(text, HasSubstr(" with failures, "));
  EXPECT_THAT(text, HasSubstr("with 1 spare "));
  EXPECT_THAT(text, HasSubstr("goodput samples/s"));
  const std::string csv =
      tool(with(with(with({"predict", "--system", "dgx1-v100"}, ask), kFailing), {"--format", "csv"})).out;
  EXPECT_THAT(csv.substr(0, csv.find('\n')), HasSubstr("seconds_to_target"));
  const auto row = [&](const std::vector<std::string>& more) {
    return Json::parse(
               tool(with(with({"compare", "dgx1-v100", "v100-pcie-8x", "--format", "json"}, ask), more)).out,
               "compare")
        .at("rows")
        .items()[0];
  };
  const Json failing = row(kFailing), plain = row({});
  for (const char* side : {"a", "b"})
    EXPECT_NEAR(failing.at(side).at("progress").at("seconds").as_real() *
                    failing.at(side).at("goodput_share").as_real(),
                plain.at(side).at("progress").at("seconds").as_real(), 1)
        << side;
  const ChildResult advice =
      tool(with(with({"advise", "--model", "lenet5", "--system", "dgx1-v100", "--schemes", "allreduce",
                      "--precision", "fp32", "--samples", "1e9", "--format", "json"},
                     {}),
                kFailing));
  ASSERT_EQ(advice.status, 0) << advice.err;
  const Json first = Json::parse(advice.out, "advice").at("choices").items()[0];
  EXPECT_NEAR(first.at("progress").at("seconds").as_real() * first.at("goodput_share").as_real() *
                  first.at("samples_per_second").as_real(),
              1e9, 1e4);
}

TEST(TimeToTarget, SaysHowLongAsFarAsInTheSmallestSteps) {
  const Json p =
      last_report(tool(small_predict({"--epochs", "1", "--noise-scale", "64", "--format", "json"})).out)
          .at("progress");
  EXPECT_NEAR(p.at("seconds_as_far").as_real(), p.at("seconds").as_real() / p.at("efficiency").as_real(),
              1e-6);
}

TEST(Csv, HasARowForWhatDoesNotFit) {
  const ChildResult none = tool({"predict", "--model", "llama3-70b", "--system", "dgx1-v100", "--devices",
                                 "1", "--batch", "1", "--format", "csv"});
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.out, HasSubstr("\nllama3-70b,dgx1-v100,"));
  EXPECT_THAT(none.out, HasSubstr(",false,"));
}

TEST(PredictData, TakesWhatRunTakes) {
  const auto rate = [](const std::vector<std::string>& more) {
    const ChildResult r = tool(with(
        {"predict", "--model", "digits-mlp", "--system", "dgx1-v100", "--devices", "1", "--format", "json"},
        more));
    EXPECT_EQ(r.status, 0) << r.err;
    return last_report(r.out).at("samples_per_second").as_real();
  };
  EXPECT_GE(rate({"--data", "digits"}), 0.999 * rate({}));
  EXPECT_EQ(rate({"--data", "digits"}), rate({"--data", "synthetic"}));
  EXPECT_EQ(tool({"predict", "--model", "digits-mlp", "--system", "dgx1-v100", "--data", "digit"}).status, 3);
}

/// Where nothing is left of the time, no figure of fifty digits.
TEST(TimeToTarget, WithoutEndIsSaid) {
  const ChildResult result =
      tool({"predict", "--model", "gpt2", "--system", "dgx1-v100", "--devices", "2", "--batch", "1",
            "--tokens", "1e12", "--mtbf", "1000h", "--checkpoint-cost", "100000h"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("more than 30,000 years"));
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "answers/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "app/measure/race.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Json progress_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--format", "json", "--no-timeline"});
  const ChildResult r = tool(words);
  EXPECT_EQ(r.status, 0) << r.err;
  return last_report(r.out).at("progress");
}

TEST(ProgressAnswer, EpochsTakeTheirSamplesOverTheRate) {
  const Json p = progress_of(small_predict({"--epochs", "2"}));
  EXPECT_EQ(p.at("samples").as_real(), 120'000) << "of MNIST";
  EXPECT_EQ(p.at("samples_per_step").as_real(), 64);
  EXPECT_EQ(p.at("steps").as_real(), 1875);
  EXPECT_GT(p.at("seconds_high").as_real(), p.at("seconds").as_real());
  EXPECT_LT(p.at("seconds_low").as_real(), p.at("seconds").as_real());
  EXPECT_EQ(p.at("efficiency").kind(), Json::Kind::null) << "no noise scale is known";
  ASSERT_EQ(p.at("unknown").items().size(), 1U);
  EXPECT_THAT(p.at("unknown").items()[0].as_text(), HasSubstr("--noise-scale"));
  EXPECT_EQ(progress_of(small_predict({"--epochs", "2", "--epoch-samples", "1000"})).at("samples").as_real(),
            2000);
}

TEST(ProgressAnswer, ASampleIsWorthLessInLargeSteps) {
  const Json p = progress_of(small_predict({"--epochs", "1", "--noise-scale", "64"}));
  EXPECT_DOUBLE_EQ(p.at("efficiency").as_real(), 0.5) << "at the critical batch";
  EXPECT_DOUBLE_EQ(p.at("learning_rate_share").as_real(), 0.5);
  const Json late = progress_of(
      small_predict({"--epochs", "1", "--noise-scale", "64", "--scheme", "delayed-allreduce:delay=2"}));
  EXPECT_DOUBLE_EQ(late.at("delay_steps").as_real(), 2);
  EXPECT_DOUBLE_EQ(late.at("efficiency").as_real(), 0.25);
  const Json apart =
      progress_of(small_predict({"--epochs", "1", "--noise-scale", "64", "--scheme", "local-sgd:every=8"}));
  EXPECT_LT(apart.at("efficiency").as_real(), 0.5);
  EXPECT_GT(apart.at("efficiency").as_real(), 64 / (32 * (1 + 64.0 / 32)) / 2) << "worth half of one alone";
}

TEST(ProgressAnswer, ALossComesAfterWhatOneWorkerNeededAndTheScheme) {
  const Json p = progress_of(
      small_predict({"--target-loss", "0.5", "--noise-scale", "96", "--samples-to-target", "12800@32"}));
  // Smin = 12800 / (32 + 96) = 100; at 64 samples S = 100 (1 + 96 / 64).
  EXPECT_DOUBLE_EQ(p.at("steps").as_real(), 250);
  EXPECT_DOUBLE_EQ(p.at("samples").as_real(), 16'000);
  const Json unknown = progress_of(small_predict({"--target-loss", "0.5"}));
  EXPECT_EQ(unknown.at("samples").kind(), Json::Kind::null);
  EXPECT_EQ(unknown.at("unknown").items().size(), 2U);
}

TEST(ProgressAnswer, OfLanguageModelsLawsAreKnown) {
  const Json p =
      progress_of({"predict", "--model", "gpt2", "--system", "dgx-a100", "--devices", "8", "--batch", "16",
                   "--precision", "bf16", "--optimizer", "adam", "--target-loss", "3.5"});
  // Kaplan et al. 2020: 2.1e8 / 3.5^(1 / 0.21) tokens, of 1,024 a sample.
  EXPECT_NEAR(p.at("noise_scale_samples").as_real(), 2.1e8 / std::pow(3.5, 1 / 0.21) / 1024, 0.1);
  // 124,439,808 parameters, of which 50257 x 768 and 1024 x 768 embed.
  const double least = std::pow(6.5e13 / (124'439'808 - 51'281 * 768.0), 0.077);
  const double fewest = 2100 / std::pow(3.5 - least, 1 / 0.76);
  const double b = 128, noise = p.at("noise_scale_samples").as_real();
  EXPECT_NEAR(p.at("steps").as_real() / (fewest * (1 + noise / b)), 1, 1e-6);
  const Json never =
      progress_of({"predict", "--model", "gpt2", "--system", "dgx-a100", "--devices", "8", "--batch", "16",
                   "--precision", "bf16", "--optimizer", "adam", "--target-loss", "2.5"});
  EXPECT_THAT(never.at("unknown").items()[0].as_text(), HasSubstr("a model of this size cannot go below"));
}

TEST(ProgressAnswer, RefusesWhatMakesNoQuestion) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--epochs", "1", "--tokens", "5"},
                                                {"--noise-scale", "5"},
                                                {"--epochs", "1", "--samples-to-target", "5@1"},
                                                {"--target-loss", "1", "--samples-to-target", "5"},
                                                {"--tokens", "5"},
                                                {"--target-loss", "1", "--samples-to-target", "5@x"}}) {
    EXPECT_EQ(tool(small_predict(words)).status, 2) << words[0] << " " << words.back();
  }
}

TEST(ProgressAnswer, ARunEndsAtTheLoss) {
  const ChildResult r = tool({"run", "--model", "digits-mlp", "--data", "digits", "--devices", "2",
                              "--iterations", "3000", "--optimizer", "sgd", "--learning-rate", "0.1",
                              "--target-loss", "1", "--loss-window", "256", "--measure-noise"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("To loss 1: "));
  EXPECT_THAT(r.out, HasSubstr("measured; 64 samples a step"));
  EXPECT_THAT(r.out, HasSubstr("Gradient noise scale"));
  const ChildResult never = tool({"run", "--model", "digits-mlp", "--data", "digits", "--devices", "1",
                                  "--iterations", "20", "--target-loss", "0.001"});
  EXPECT_THAT(never.out, HasSubstr("not reached after 20 iterations"));
}

RaceEntry entry(double predicted, std::vector<double> samples) {
  RaceEntry e;
  e.workers = 2;
  e.predicted_samples = predicted;
  e.predicted_rate = 10;
  e.rates = {20, 20, 20};
  e.samples = std::move(samples);
  return e;
}

TEST(Race, OneWorkerInTwoStepsGivesTheModel) {
  // Smin = 100 and a critical batch of 300: 100 (B + 300) samples; the largest useful rate is 2.
  const RaceModel m = race_model({8, 2 * 8.0 / 308, 30'800}, {128, 2 * 128.0 / 428, 42'800});
  EXPECT_NEAR(m.fewest_steps, 100, 1e-9);
  EXPECT_NEAR(m.noise, 300, 1e-6);
  EXPECT_NEAR(m.learning_rate, 2, 1e-9);
  EXPECT_THROW(race_model({8, 0.1, 30'800}, {128, 0.1, 30'000}), InputError);
}

TEST(Race, TheOrderIsJudgedWithTheSeedsScatter) {
  const std::vector<RaceEntry> apart = {entry(100, {10, 11, 12}), entry(200, {20, 21, 22}),
                                        entry(300, {30, 31, 32})};
  const RaceOrder clear = race_order(apart, 2);
  EXPECT_EQ(clear.seconds.tau, 1);
  EXPECT_EQ(clear.seconds.low, 1);
  EXPECT_EQ(clear.samples.tau, 1);
  EXPECT_EQ(clear.pairs, 3);
  EXPECT_EQ(clear.apart, 3);
  EXPECT_EQ(clear.seconds_apart.tau, 1);
  EXPECT_EQ(race_order(apart, 4).seconds.tau, 0) << "nobody has four workers";
  EXPECT_EQ(race_order(apart, 4).pairs, 0);
  const std::vector<RaceEntry> mixed = {entry(100, {10, 40, 25}), entry(200, {24, 20, 60}),
                                        entry(300, {26, 31, 9})};
  EXPECT_LT(race_order(mixed, 2).seconds.low, race_order(mixed, 2).seconds.high);
  EXPECT_LT(race_order(mixed, 2).apart, 3);
  EXPECT_DOUBLE_EQ(apart[1].executed_seconds(), 21.0 / 20);
  const auto [low, high] = seconds_interval(apart[1]);
  EXPECT_DOUBLE_EQ(low, 1);
  EXPECT_DOUBLE_EQ(high, 1.1);
}

TEST(Race, PairsThatTheScatterHidesDoNotCount) {
  // The first two are mistaken for each other, but by less than their seeds scatter.
  const std::vector<RaceEntry> all = {entry(100, {20, 30, 40, 50}), entry(101, {19, 29, 39, 49}),
                                      entry(200, {90, 91, 92, 93})};
  const RaceOrder o = race_order(all, 2);
  EXPECT_NEAR(o.seconds.tau, 1.0 / 3, 1e-12);
  EXPECT_EQ(o.apart, 2);
  EXPECT_EQ(o.seconds_apart.tau, 1);
}

TEST(Race, RatesThatScatterWidenTheTime) {
  RaceEntry e = entry(100, {10, 10, 10});
  e.rates = {10, 20, 40};
  EXPECT_DOUBLE_EQ(e.executed_rate(), 30) << "upper quartile";
  const auto [low, high] = seconds_interval(e);
  EXPECT_LT(low, high);
  // A rate that was mismeasured turns the order of times, not that at the predicted rates.
  std::vector<RaceEntry> all = {entry(100, {10, 10, 10}), entry(200, {20, 20, 20})};
  all[0].rates = {1, 1, 1};
  EXPECT_EQ(race_order(all, 2).seconds.tau, -1);
  EXPECT_EQ(race_order(all, 2).at_predicted_rates.tau, 1);
}

TEST(Race, ResultsAreKeptAndGoOn) {
  const Scratch scratch;
  const std::string file = scratch.file("r.jsonl");
  const JsonWriter race = {{"model", "a"}};
  const auto once = [](double value) {
    return [value] { return std::optional(RaceResults::Values{value, 1}); };
  };
  {
    RaceResults r(file, race);
    EXPECT_EQ((*r.get("one", once(1.25)))[0], 1.25);
    EXPECT_EQ(r.get("two", [] { return std::optional<RaceResults::Values>(); }), std::nullopt);
  }
  std::ofstream(file, std::ios::app) << "{\"what\":\"three\",\"val";  // cut off
  RaceResults again(file, race);
  EXPECT_EQ(again.size(), 1);
  EXPECT_EQ((*again.get("one", once(7)))[0], 1.25) << "recalled";
  EXPECT_EQ((*again.get("three", once(3)))[0], 3);
  EXPECT_EQ(RaceResults(file, race).size(), 2);
  EXPECT_THROW(RaceResults(file, JsonWriter{{"model", "b"}}), InputError);
  std::ofstream(file, std::ios::app) << "nonsense\n";
  EXPECT_THROW(RaceResults(file, race), InputError);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Advice: the best of what predict gives, whatever the threads, with commands that work.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "answers/advise.h"
#include "answers/shell_line.h"
#include "app/analysis/advice_text.h"
#include "base/json.h"
#include "sim/capacity.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> advise_words(std::vector<std::string> more) {
  more.insert(more.begin(), "advise");
  return more;
}

Json advised(std::vector<std::string> more) {
  more.insert(more.end(), {"--format", "json"});
  const ChildResult result = tool(advise_words(std::move(more)));
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out, "stdout");
}

/// What is asked of advise() directly.
struct Asked {
  Question question;
  Space space;
  explicit Asked(const std::string& model, const std::string& system, int64_t devices, int64_t samples,
                 std::vector<std::string> schemes)
      : question(Question::of({{"model", model}, {"system", system}})) {
    space = {&question.graph, &question.system, std::move(schemes), devices, samples, {Precision::fp32}};
  }
  Advice answer(int threads = 1) {
    Search search;
    search.threads = threads;
    return advise(question, space, search);
  }
};

const Choice& first(const Advice& advice) { return advice.ranked.at(0); }

TEST(Advise, NoCandidateThatFitsIsPredictedFasterThanTheFirst) {
  Asked asked("vgg8-cifar10", "v100-pcie-8x", 4, 64, exact_schemes());
  const Advice advice = asked.answer();
  ASSERT_TRUE(advice.complete);
  int64_t compared = 0;
  for (const Candidate& c : candidates(asked.space)) {
    const ResolvedScheme scheme = resolve_scheme(c.scheme, Place{});
    Request p = asked.question.request(c.devices);
    p.job.scheme = &scheme;
    p.job.batch = c.batch;
    p.job.precision = c.precision;
    p.job.recompute = {};
    p.job.offload = {};
    p.timeline = false;
    try {
      const Report r = simulate(p);
      if (!r.fits) continue;
      ++compared;
      EXPECT_EQ(r.setup.samples_per_iteration, asked.space.samples) << c.scheme;
      EXPECT_LE(r.rate.samples_per_second, first(advice).report.rate.samples_per_second) << c.scheme;
    } catch (const InputError&) {
      // What a scheme refuses is no candidate.
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(Advise, EverythingListedFitsAndIsRankedByItsRate) {
  Asked asked("bert-large", "dgx1-v100", 8, 64, exact_schemes());
  const Advice advice = asked.answer();
  ASSERT_GE(advice.ranked.size(), 2u);
  for (std::size_t i = 0; i < advice.ranked.size(); ++i) {
    const Report& r = advice.ranked[i].report;
    EXPECT_TRUE(r.fits && r.memory.fits());
    EXPECT_EQ(r.setup.samples_per_iteration, 64);
    if (i > 0) {
      EXPECT_LE(r.rate.samples_per_second, advice.ranked[i - 1].report.rate.samples_per_second);
    }
  }
  ASSERT_TRUE(advice.first_beats_second);
  EXPECT_GE(*advice.first_beats_second, 0.5);
}

TEST(Advise, WhatFillsTheMemoryIsLastUnlessAskedFor) {
  std::vector<std::string> words = {"advise",         "--model",        "gpt2", "--system",
                                    "2080ti-pcie-4x", "--global-batch", "32",   "--optimizer",
                                    "adam",           "--format",       "json"};
  const auto asked = [&] {
    const auto result = tool(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out, "advice");
  };
  const auto share = [](const Json& choice) {
    const Json& memory = choice.at("memory_bytes_per_device");
    return memory.at("total").as_real() / memory.at("capacity").as_real();
  };
  const Json roomy = asked();
  for (const Json& c : roomy.at("choices").items()) EXPECT_EQ(c.at("tight").as_bool(), share(c) > 0.9);
  words.push_back("--full-memory");
  const Json full = asked();
  const Json &first = full.at("choices").items()[0], &second = full.at("choices").items()[1];
  const auto rate = [](const Json& choice) { return choice.at("samples_per_second").as_real(); };
  EXPECT_GT(share(first), 0.9);
  EXPECT_FALSE(first.at("tight").as_bool());
  EXPECT_GT(rate(first), rate(second));
  EXPECT_GT(rate(first), rate(roomy.at("choices").items()[0]));
}

TEST(Advise, RatesOverTheFirstsAreNarrowerThanBothIntervals) {
  const Advice advice = Asked("bert-large", "dgx1-v100", 8, 64, exact_schemes()).answer();
  ASSERT_GE(advice.ranked.size(), 2u);
  EXPECT_EQ(first(advice).to_first.low, 1);
  EXPECT_EQ(first(advice).to_first.high, 1);
  for (std::size_t i = 1; i < advice.ranked.size(); ++i) {
    const Report::Rate &own = advice.ranked[i].report.rate, &best = first(advice).report.rate;
    const Report::Interval& ratio = advice.ranked[i].to_first;
    EXPECT_LT(ratio.low, own.samples_per_second / best.samples_per_second);
    EXPECT_GT(ratio.high, own.samples_per_second / best.samples_per_second);
    EXPECT_GT(ratio.low, own.interval.low / best.interval.high);
    EXPECT_LT(ratio.high, own.interval.high / best.interval.low);
  }
}

TEST(Advise, MoreDevicesNeverMakeTheAdvisedRateWorse) {
  for (const int64_t samples : {6, 64}) {
    double before = 0;
    for (const int64_t devices : {1, 2, 3, 5, 6, 8}) {
      const double rate =
          first(Asked("vgg8-cifar10", "v100-pcie-8x", devices, samples, {"allreduce", "zero", "hybrid"})
                    .answer())
              .report.rate.samples_per_second;
      EXPECT_GE(rate, before) << devices;
      before = rate;
    }
  }
}

TEST(Advise, ASchemeAskedTwiceIsTriedOnce) {
  const std::vector<std::string> words = {"advise",    "--model", "vgg8-cifar10", "--system", "v100-pcie-8x",
                                          "--devices", "2",       "--format",     "csv",      "--quiet",
                                          "--schemes"};
  const auto with = [&](const char* schemes) {
    std::vector<std::string> all = words;
    all.push_back(schemes);
    return tool(all).out;
  };
  EXPECT_EQ(with("allreduce,zero,allreduce"), with("allreduce,zero"));
}

TEST(Advise, ThreadsChangeNothing) {
  const std::vector<std::string> words = {"--model",   "vgg8-cifar10", "--system",
                                          "dgx1-v100", "--batch",      "16"};
  auto one = advise_words(words), three = advise_words(words);
  one.insert(one.end(), {"--threads", "1", "--format", "json"});
  three.insert(three.end(), {"--threads", "3", "--format", "json"});
  EXPECT_EQ(tool(one).out, tool(three).out);
}

TEST(Advise, CommandsWorkWhenPasted) {
  const Json advice = advised({"--model", "lenet5", "--system", "dgx1-v100", "--devices", "2", "--batch", "8",
                               "--top", "2", "--memory", "update=fused"});
  const auto pasted = [](const std::string& command) {
    EXPECT_EQ(command.rfind("tandem ", 0), 0u);
    return shell("\"$0\" " + command.substr(7) + " --format json");
  };
  const ChildResult predicted = pasted(advice.at("predict").as_text());
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_EQ(last_report(predicted.out).at("samples_per_second").as_real(),
            advice.at("choices").items()[0].at("samples_per_second").as_real());
  const ChildResult executed = pasted(advice.at("run").as_text() + " --iterations 3 --warmup 1");
  ASSERT_EQ(executed.status, 0) << executed.err;
  EXPECT_EQ(last_report(executed.out).at("samples_per_iteration").as_int(1, 1000), 16);
}

// The guide of the MultiGPU study, on two devices as there and on four: one device where model and data are
// small, data parallelism where the data is large, model parallelism where the model is, both where both are.
// Small data is a step of few samples. The study is older than sharding: without it a model that no device
// holds must be divided.
Candidate by_guide(const std::string& model, int64_t devices, int64_t samples) {
  Asked asked(model, "v100-pcie-8x", devices, samples, {"allreduce", "hybrid:sharding=none,schedule=1f1b"});
  asked.question.optimizer = &optimizer("adam");
  asked.question.input = false;
  return first(asked.answer()).candidate;
}
int64_t parts(const Candidate& c) { return c.tensor * c.pipeline * c.context; }

TEST(Advise, FollowsTheGuideOfTheMultiGpuStudy) {
  EXPECT_EQ(by_guide("alexnet", 2, 8).devices, 1);
  const Candidate data = by_guide("alexnet", 2, 512);
  EXPECT_EQ(parts(data), 1);
  EXPECT_EQ(data.replicas, 2);
  const Candidate model = by_guide("gpt2-xl:sequence=128", 4, 1);
  EXPECT_GT(parts(model), 1);
  EXPECT_EQ(model.replicas, 1);
  EXPECT_GT(parts(by_guide("gpt2-xl:sequence=128", 4, 64)), 1);
  const Candidate both = by_guide("gpt2-xl:sequence=128", 8, 256);
  EXPECT_GT(parts(both), 1);
  EXPECT_GT(both.replicas, 1);
}

TEST(Advise, TheBorderOfTheModelIsCrossedOnce) {
  int64_t before = 1;
  for (const int64_t layers : {8, 16, 32, 48}) {
    const Candidate c = by_guide(fmt::format("gpt2-xl:sequence=128,layers={}", layers), 4, 64);
    EXPECT_GE(parts(c), before) << layers;
    before = parts(c);
    if (layers == 8) EXPECT_EQ(parts(c), 1) << "a device holds it, and there are samples for all";
  }
  EXPECT_GT(before, 1);
}

TEST(Advise, TheBorderOfDataIsCrossedOnce) {
  int64_t before = 1;
  for (const int64_t samples : {2, 8, 128, 512}) {
    const int64_t devices = by_guide("alexnet", 2, samples).devices;
    EXPECT_GE(devices, before) << samples;
    before = devices;
  }
  EXPECT_EQ(before, 2);
}

TEST(Advise, OffloadsOnlyWhereNothingFitsElse) {
  const Json advice = advised({"--model", "gpt2-xl", "--system", "dgx1-v100", "--devices", "1", "--batch",
                               "1", "--precision", "fp16", "--optimizer", "adam"});
  EXPECT_NE(advice.at("choices").items()[0].at("offload").as_text(), "off");
  for (const Json& scheme : advice.at("schemes").items()) {
    const Json& needs = scheme.at("needs_bytes");
    if (needs.kind() != Json::Kind::null)
      EXPECT_GT(needs.as_int(0, INT64_MAX), 16e9) << "of what leaves nothing in the host";
  }
}

TEST(Advise, SchemesThatLearnElseAreTriedWhenAskedForAndSaidToBe) {
  const ChildResult result = tool(advise_words({"--model", "lenet5", "--system", "dgx1-v100", "--devices",
                                                "2", "--schemes", "allreduce,local-sgd:every=4"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("local-sgd:every=4"));
  EXPECT_THAT(result.out, HasSubstr("samples/s alone do not tell"));
  for (const std::string& scheme : exact_schemes())
    EXPECT_TRUE(learns_as_one(resolve_scheme(scheme, Place{})));
  EXPECT_FALSE(learns_as_one(resolve_scheme("parameter-server:mode=async", Place{})));
  EXPECT_TRUE(learns_as_one(resolve_scheme("megatron", Place{})));
}

TEST(Advise, ProbabilityFollowsFromTheErrorsThatAreNotShared) {
  Report a, b;
  a.rate.samples_per_second = 110;
  b.rate.samples_per_second = 100;
  a.rate.errors = {{"kernels", 0.5}, {"links", 0.1}};
  b.rate.errors = {{"kernels", 0.5}};
  const double z = std::log(1.1) / 0.1;  // the kernels' error cancels
  EXPECT_NEAR(probability_faster(a, b), 0.5 * std::erfc(-z / std::sqrt(2.0)), 1e-9);
  EXPECT_NEAR(probability_faster(a, b) + probability_faster(b, a), 1, 1e-9);
}

TEST(Advise, ShellLinesAreQuoted) {
  EXPECT_EQ(shell_line({"tandem", "a b", "it's", "x=1,y"}), "tandem 'a b' 'it'\\''s' x=1,y");
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// The public header by itself: the same question by flags, by JSON and by C++ has the same bytes.
#include "include/tandem/tandem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/tool.h"

namespace door_tests {
namespace {

using ::testing::HasSubstr;
using Options = tandem::Question::Options;

/// Questions of every kind of scheme, split, memory and machine; switches have the value "true".
const std::vector<Options>& golden() {
  static const std::vector<Options> all = {
      {{"model", "vgg16"}, {"system", "v100-pcie-8x"}, {"scheme", "pytorch-ddp"}, {"precision", "fp16"}},
      {{"model", "resnet50"}, {"system", "dgx1-v100"}, {"scheme", "horovod"}, {"devices", "8"}},
      {{"model", "resnet50"},
       {"system", "v100-pcie-8x"},
       {"scheme", "parameter-server:mode=async"},
       {"devices", "4"},
       {"batch", "16"}},
      {{"model", "bert-large"},
       {"system", "dgx-a100"},
       {"scheme", "deepspeed-zero2"},
       {"batch", "4"},
       {"precision", "bf16"},
       {"optimizer", "adamw"},
       {"devices", "8"},
       {"recompute", "blocks"}},
      {{"model", "gpt2"},
       {"system", "dgx-a100"},
       {"scheme", "megatron:tensor=2,pipeline=2,microbatches=4"},
       {"batch", "2"},
       {"precision", "bf16"},
       {"optimizer", "adam"},
       {"devices", "8"}},
      {{"model", "gpt2"},
       {"system", "dgx-a100"},
       {"set", "nodes=2"},
       {"scheme", "pytorch-fsdp"},
       {"devices", "16"},
       {"batch", "4"},
       {"precision", "bf16"},
       {"tokens", "1e9"},
       {"mtbf", "50000h"}},
      {{"model", "vgg16"}, {"system", "2080ti-pcie-8x"}, {"with-bridges", "2-3,4-5"}, {"devices", "4"}},
      {{"model", "vgg16"},
       {"system", "2080ti-nvlink-8x"},
       {"without", "nvlink"},
       {"place", "2,3"},
       {"devices", "2"}},
      {{"model", "resnet50"}, {"system", "v100-p100-pcie-16x"}, {"batch-split", "speed"}, {"devices", "16"}},
      {{"model", "llama2-7b"},
       {"system", "dgx-a100"},
       {"batch", "1"},
       {"precision", "bf16"},
       {"optimizer", "adamw"},
       {"adapter", "qlora:rank=16"},
       {"devices", "1,8"}},
      {{"model", "resnet50"},
       {"system", "dgx1-v100"},
       {"anchor", "350"},
       {"devices", "1,8"},
       {"jitter", "0.03"},
       {"pauses", "every=60s,for=0.5s"},
       {"iterations", "50"},
       {"seed", "5"}},
      {{"model", "lenet5"},
       {"system", "dgx1-v100"},
       {"scheme", "diloco:every=4"},
       {"devices", "4"},
       {"input", "synthetic"}},
      {{"model", "resnet50"},
       {"system", "dgx1-v100"},
       {"staged", "true"},
       {"epoch", "first"},
       {"decode-workers", "4"},
       {"prefetch", "2"},
       {"devices", "8"}},
      {{"model", "lenet5"}, {"system", "dgx1-v100"}, {"with", "2 lenet5 allreduce 16"}, {"devices", "4"}},
      {{"model", "llama2-7b"}, {"system", "5090-2x"}, {"devices", "2"}},  // does not fit
  };
  return all;
}

std::vector<std::string> predict_words(const std::vector<std::string>& own) {
  std::vector<std::string> out = {"predict"};
  out.insert(out.end(), own.begin(), own.end());
  out.insert(out.end(), {"--format", "json", "--reproducible", "--no-timeline", "--quiet"});
  return out;
}

TEST(Door, HasTheBytesOfTheCommandLine) {
  for (const Options& options : golden()) {
    std::vector<std::string> flags;
    for (const auto& [name, value] : options) {
      flags.push_back("--" + name);
      if (value != "true") flags.push_back(value);
    }
    const tandem::Question question(options);
    const auto by_flags = tandem::tests::tool(predict_words(flags));
    const auto by_json = tandem::tests::tool(predict_words({"--question", "-"}), question.to_json());
    EXPECT_EQ(by_json.status, by_flags.status);
    EXPECT_EQ(by_json.out, by_flags.out) << question.to_json();
    EXPECT_EQ(by_json.err, by_flags.err);
    const auto reports = tandem::predict(question);
    if (!reports.back().fits()) continue;  // the command line then says what would help
    EXPECT_EQ(tandem::to_json(reports), by_flags.out) << question.to_json();
    EXPECT_EQ(tandem::Question::from_json(by_flags.out), question);
  }
}

TEST(Door, OptionsGivenBesideAFileWin) {
  const tandem::Question question(golden()[1]);
  const auto changed = tandem::tests::tool(
      predict_words({"--question", "-", "--batch", "8", "--devices", "2"}), question.to_json());
  EXPECT_EQ(changed.out, tandem::to_json(tandem::predict(question.with({{"batch", "8"}, {"devices", "2"}}))));
}

TEST(Door, AnswersAndSaysWhatIsWrong) {
  const tandem::Question question({{"model", "lenet5"}, {"system", "dgx1-v100"}, {"devices", "1,4"}});
  EXPECT_EQ(question.devices(), (std::vector<int64_t>{1, 4}));
  const auto reports = tandem::predict(question);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_TRUE(reports[1].fits());
  EXPECT_GT(reports[1].samples_per_second(), reports[1].low());
  EXPECT_LT(reports[1].samples_per_second(), reports[1].high());
  EXPECT_GT(reports[1].memory_capacity(), reports[1].memory_bytes());
  EXPECT_FALSE(reports[1].bottleneck().empty());
  EXPECT_EQ(reports[1].devices(), 4);
  EXPECT_GT(reports[1].speedup(), 1);
  EXPECT_EQ(reports[1].staleness(), 0);
  EXPECT_NE(question.with({{"batch", "2"}}), question);
  try {
    tandem::Question({{"model", "lenet6"}, {"system", "dgx1-v100"}});
    FAIL();
  } catch (const tandem::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Did you mean lenet5"));
  }
  EXPECT_THROW(tandem::Question(Options{{"modell", "lenet5"}}), tandem::Error);
  EXPECT_THROW(tandem::set_data_folder("/nowhere"), tandem::Error);
  EXPECT_THROW(tandem::predict(question.with({{"devices", "64"}})), tandem::Error);
}

}  // namespace
}  // namespace door_tests

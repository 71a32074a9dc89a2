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

/// Questions of every kind of scheme, split, memory and machine, which tests/python asks too; switches have
/// the value "true".
const std::vector<Options>& golden() {
  static const std::vector<Options> all = [] {
    using tandem::base::Json;
    std::vector<Options> out;
    const Json file = Json::load(TANDEM_ROOT "/tests/golden/questions.json");
    for (const Json& question : file.at("questions").items()) {
      out.emplace_back();
      for (const auto& [name, value] : question.members())
        out.back().emplace_back(name, value.kind() == Json::Kind::boolean ? "true" : value.as_text());
    }
    return out;
  }();
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

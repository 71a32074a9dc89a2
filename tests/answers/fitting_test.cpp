// SPDX-License-Identifier: Apache-2.0
// What would help where a model does not fit: as data that can be asked, and in words.
#include "answers/fitting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "answers/answer.h"
#include "sim/capacity.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Options = std::vector<std::pair<std::string, std::string>>;

/// As a caller does whose user presses the button.
Question with_remedy(const Question& q, const Remedy& remedy) {
  Options changes;
  for (const auto& [option, value] : remedy.changes) {
    if (option == "set") {
      for (const std::string& set : q.given.all("set")) changes.emplace_back("set", set);
    }
    changes.emplace_back(option, value);
  }
  return q.with(changes);
}

/// None of them fits its devices.
const std::vector<Options>& too_large() {
  static const Options tuned = {
      {"model", "llama3-8b"}, {"system", "5090-2x"},       {"devices", "1"},
      {"precision", "bf16"},  {"adapter", "lora:rank=16"}, {"optimizer", "adamw"},
      {"batch", "1"},         {"input", "synthetic"},      {"memory", "buckets=copies"},
  };
  static const std::vector<Options> all = {{{"model", "gpt2:layers=48,hidden=1600,heads=25"},
                                            {"system", "dgx1-v100"},
                                            {"set", "host.memory=1TiB"},
                                            {"devices", "1,2"},
                                            {"batch", "4"},
                                            {"optimizer", "adamw"}},
                                           {{"model", "gpt2-xl:sequence=512"},
                                            {"system", "dgx1-v100"},
                                            {"set", "nodes=2"},
                                            {"devices", "16"},
                                            {"optimizer", "adamw"},
                                            {"scheme", "diloco:every=50"}},
                                           tuned};
  return all;
}

TEST(Remedies, FitWhenTheyAreAskedAndNeedWhatTheySay) {
  for (const Options& options : too_large()) {
    const Question q = Question::of(options);
    const std::vector<Report> reports = predict(q);
    const Report& refused = reports.back();
    EXPECT_TRUE(std::all_of(reports.begin(), reports.end() - 1, [](auto& r) { return r.remedies.empty(); }));
    ASSERT_GT(refused.remedies.size(), 2U) << options[0].second;
    EXPECT_EQ(refused.remedies.back().changes[0].option, "swap");
    for (const Remedy& remedy : refused.remedies) {
      const Question changed = with_remedy(q, remedy);
      const std::string told = changed.to_json().dump();
      EXPECT_GE(remedy.devices, refused.setup.devices) << told;
      const Report report = predict(changed, remedy.devices, Depth::report);
      EXPECT_TRUE(report.fits) << told;
      EXPECT_EQ(report.memory.capacity, remedy.capacity) << told;
      if (remedy.changes[0].option != "swap") EXPECT_EQ(report.memory.needed(), remedy.needed) << told;
    }
  }
}

/// The words say only what is new of --memory; the data has all of it.
TEST(Remedies, KeepWhatWasSaidOfMemory) {
  Options options = too_large()[2];
  options.back() = {"memory", "weights=fp32,buckets=copies"};
  const Question q = Question::of(options);
  std::vector<Report> reports = predict(q, Depth::report);
  const std::string text = add_remedies(q, reports);
  EXPECT_THAT(text, AllOf(HasSubstr("--adapter qlora:rank=16,on=default and --recompute blocks, or "),
                          HasSubstr(" and --memory weights=half, or "), Not(HasSubstr("copies"))));
  EXPECT_TRUE(std::any_of(reports[0].remedies.begin(), reports[0].remedies.end(), [](const Remedy& remedy) {
    return remedy.changes.back() == Remedy::Change{"memory", "buckets=copies,weights=half"};
  }));
}

TEST(Remedies, ReadBackFromReports) {
  const std::vector<Report> reports = predict(Question::of(too_large()[0]));
  const std::vector<Report> back =
      reports_from_json(Json::parse(reports_to_json(reports, true), "reports.json"));
  ASSERT_EQ(back.back().remedies.size(), reports.back().remedies.size());
  for (std::size_t i = 0; i < back.back().remedies.size(); ++i)
    EXPECT_EQ(remedy_json(back.back().remedies[i]).dump(), remedy_json(reports.back().remedies[i]).dump());
  EXPECT_TRUE(back.front().remedies.empty());
}

TEST(Remedies, AreThereOnlyWhereNothingFits) {
  const Question q =
      Question::of(too_large()[0]).with({{"scheme", "zero:stage=3"}, {"devices", "1,8"}, {"batch", "1"}});
  std::vector<Report> reports = predict(q);
  EXPECT_FALSE(reports[0].fits);
  EXPECT_TRUE(reports[1].fits);
  EXPECT_TRUE(reports[0].remedies.empty());
  EXPECT_EQ(add_remedies(q, reports), "");
}

TEST(FitText, NamesTheSmallestDeviceAndTheHost) {
  const Question unlike = Question::of({{"model", "vgg16"},
                                        {"system", "v100-p100-pcie-16x"},
                                        {"set", "node_kinds.p100.devices.gpu[0-7].model=k80"},
                                        {"devices", "16"},
                                        {"batch", "150"}});
  const auto text_of = [](const Question& q) {
    const int64_t devices = q.devices[0];
    return fit_text(q.request(devices), memory_on(q.request(devices), devices), {});
  };
  EXPECT_THAT(text_of(unlike), HasSubstr("on each of 16 k80 ("));
  const Question host = Question::of({{"model", "llama3-70b:sequence=1024"},
                                      {"system", "workstation-2x"},
                                      {"swap", "device=rtx-4090"},
                                      {"devices", "2"},
                                      {"batch", "1"},
                                      {"precision", "bf16"},
                                      {"optimizer", "adamw"},
                                      {"recompute", "blocks"},
                                      {"scheme", "deepspeed-zero3"},
                                      {"offload", "optimizer+gradients+parameters"}});
  EXPECT_THAT(text_of(host), HasSubstr(" GiB of the host's 128 GiB: what its devices leave there, "));
  EXPECT_THAT(text_of(host), HasSubstr("needs 1,0"));
}

TEST(FitText, AlwaysSaysWhereToAsk) {
  const Question q = Question::of(too_large()[0]);
  const Request p = q.request(16);
  const MemoryUse needs = memory_on(p, 16);
  EXPECT_THAT(fit_text(p, needs, {}),
              HasSubstr("; not even one sample fits; tandem advise looks for other ways"));
  EXPECT_THAT(
      fit_text(p, needs,
               {{{{"batch", "2"}}, 16, {}, {}},
                {{{"devices", "32"}, {"set", "nodes=4"}}, 32, {}, {}},
                {{{"recompute", "blocks"}, {"devices", "17"}}, 17, {}, {}}}),
      HasSubstr("; the largest batch that fits is 2; what would fit: at least 32 devices (--set nodes=4), "
                "or --recompute blocks on at least 17 devices; tandem advise"));
}

}  // namespace
}  // namespace tandem::tests

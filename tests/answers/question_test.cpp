// SPDX-License-Identifier: Apache-2.0
// A question as a value: however it is written, it is the same question and has the same answer.
#include "answers/question.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "answers/answer.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using Options = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const std::vector<Report>& reports) { return reports_to_json(reports, true); }

Json parsed(const std::string& text) { return Json::parse(text, "q.json"); }

/// One of each kind of option.
const std::vector<Options>& asked() {
  static const std::vector<Options> all = {
      {{"model", "lenet5"}, {"system", "dgx1-v100"}},
      {{"model", "lenet5"}, {"system", "dgx1-v100"}, {"devices", "4,2"}, {"batch", "8"}, {"seed", "7"}},
      {{"model", "vgg8-cifar10"},
       {"system", "v100-pcie-8x"},
       {"scheme", "pytorch-ddp:bucket=1MiB"},
       {"devices", "8"},
       {"precision", "fp16"},
       {"set", "host.cores=12"},
       {"set", "links.pcie.bandwidth=8GB/s"}},
      {{"model", "lenet5"}, {"system", "2080ti-nvlink-8x"}, {"without", "nvlink"}, {"devices", "2"}},
      {{"model", "lenet5"}, {"system", "5090-2x"}, {"swap", "device=rtx-3090"}, {"jitter", "0.05"}},
      {{"model", "lenet5"},
       {"system", "dgx1-v100"},
       {"devices", "2"},
       {"staged", "true"},
       {"mtbf", "5000h"},
       {"checkpoint-cost", "10s"},
       {"restart-time", "60s"},
       {"samples", "1e6"}},
      {{"model", "lenet5"},
       {"system", "v100-pcie-8x"},
       {"devices", "4"},
       {"with", "2 lenet5 allreduce 16"},
       {"stragglers", "share=0.5,slow=1.5"}},
      {{"model", "gpt2:layers=2"},
       {"system", "dgx-a100"},
       {"devices", "2"},
       {"batch", "1"},
       {"precision", "bf16"},
       {"optimizer", "adamw"},
       {"adapter", "lora:rank=4"},
       {"recompute", "blocks"}},
  };
  return all;
}

TEST(Questions, ReadBackFromJsonAsTheSameQuestion) {
  for (const Options& options : asked()) {
    const Question q = Question::of(options);
    const std::string text = q.to_json().dump();
    const Question again = Question::from_json(parsed(text));
    EXPECT_EQ(again.to_json().dump(), text);
    EXPECT_EQ(again, q) << text;
    EXPECT_EQ(text_of(predict(again, Depth::report)), text_of(predict(q, Depth::report))) << text;
  }
}

TEST(Questions, ReportsCarryTheirsAndAreAskedAgain) {
  for (const Options& options : asked()) {
    Question q = Question::of(options);
    q.timeline = false;
    const std::string report = text_of(predict(q));
    Question again = Question::from_json(parsed(report));
    again.timeline = false;
    EXPECT_EQ(text_of(predict(again)), report);
    EXPECT_EQ(reports_from_json(parsed(report))[0].setup.question.dump(), q.to_json().dump());
  }
}

TEST(Questions, HaveOneHashWhateverTheOrderAndTheDefaultsThatAreSaid) {
  const Question q = Question::of({{"model", "lenet5"}, {"system", "dgx1-v100"}, {"devices", "2"}});
  EXPECT_EQ(q, Question::of({{"devices", "2"},
                             {"batch", "32"},
                             {"system", "dgx1-v100"},
                             {"precision", "fp32"},
                             {"model", "lenet5"}}));
  std::set<uint64_t> hashes = {q.hash()};
  for (const auto& change : Options{{"batch", "33"},
                                    {"model", "lenet5:"},
                                    {"seed", "2"},
                                    {"devices", "4"},
                                    {"set", "host.cores=3"},
                                    {"system", "dgx-a100"},
                                    {"staged", "true"}}) {
    if (change.first == "model") continue;
    EXPECT_TRUE(hashes.insert(q.with({change}).hash()).second) << change.first;
  }
}

TEST(Questions, ChangeAndChangeBack) {
  for (const Options& options : asked()) {
    const Question q = Question::of(options);
    const Question other = q.with({{"batch", "2"},
                                   {"set", "host.cores=7"},
                                   {"system", "dgx-a100"},
                                   {"swap", ""},
                                   {"without", ""},
                                   {"devices", "1"}});
    EXPECT_EQ(other.system.name(), "dgx-a100");
    EXPECT_EQ(other.system.host().cores, 7);
    EXPECT_EQ(other.batch, 2);
    // Read anew it is the same.
    EXPECT_EQ(text_of(predict(Question::from_json(parsed(other.to_json().dump())), Depth::report)),
              text_of(predict(other, Depth::report)));
  }
}

TEST(Questions, TakeModelsAndSystemsThatNoFileHolds) {
  const std::string model =
      JsonWriter(Json::load(std::string(TANDEM_ROOT) + "/models/zoo/lenet5.json")).dump();
  const std::string system = JsonWriter(System::document("dgx1-v100", {{"host.cores", "5"}})).dump();
  const Question q = Question::of({{"model", model}, {"system", system}, {"devices", "4"}});
  EXPECT_EQ(q.system.host().cores, 5);
  const Question again = Question::from_json(parsed(q.to_json().dump()));
  EXPECT_EQ(again, q);
  Question named =
      Question::of({{"model", "lenet5"}, {"system", "dgx1-v100"}, {"set", "host.cores=5"}, {"devices", "4"}});
  const Report a = predict(q, 4), b = predict(named, 4);
  EXPECT_EQ(a.rate.samples_per_second, b.rate.samples_per_second);
  EXPECT_EQ(a.bottleneck.resource, b.bottleneck.resource);
  EXPECT_EQ(a.bottleneck.elasticity, b.bottleneck.elasticity);
}

TEST(Questions, KeepTheContentsThatTheirFilesHad) {
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("question-{}.json", getpid())).string();
  const std::string model = read_file(std::string(TANDEM_ROOT) + "/models/zoo/lenet5.json");
  write_file(file, model);
  const Options options = {{"model", file}, {"system", "dgx1-v100"}, {"then", "2 " + file}};
  const Question before = Question::of(options);
  const uint64_t hash = before.hash();
  write_file(file, model + " ");
  EXPECT_EQ(before.hash(), hash);
  EXPECT_EQ(before.with({{"batch", "32"}}).contents.at({"model", file}), before.contents.at({"model", file}));
  EXPECT_NE(Question::of(options), before);
  std::filesystem::remove(file);
  EXPECT_EQ(before.hash(), hash);
}

TEST(Questions, TakeListsSwitchesAndNumbersAsTheyAreMeant) {
  const Question q = Question::of({{"model", "lenet5"}, {"system", "dgx1-v100"}, {"staged", "false"}});
  EXPECT_FALSE(q.loading.staged);
  EXPECT_TRUE(q.with({{"staged", "true"}}).loading.staged);
  EXPECT_FALSE(q.with({{"staged", "true"}}).with({{"staged", ""}}).loading.staged);
  const Question changed = q.with({{"set", "nodes=2"}, {"set", "host.cores=3"}});
  EXPECT_EQ(changed.system.nodes(), 2);
  EXPECT_EQ(changed.system.host().cores, 3);
  EXPECT_EQ(q.with({{"batch", "064"}, {"samples", "1e6"}}),
            q.with({{"batch", "64"}, {"samples", "1000000"}}));
  EXPECT_EQ(q, Question::from_json(parsed(q.to_json().dump())));
  EXPECT_EQ(q.with({{"scheme", "allreduce"}, {"profile", "stock"}}), q);
  EXPECT_THROW(Question::of({{"model", "lenet5"}, {"system", "dgx1-v100"}, {"batch", "1"}, {"batch", "2"}}),
               UsageError);
  EXPECT_THROW(q.with({{"staged", "perhaps"}}), UsageError);
}

void expect_refused(const std::string& text, const std::string& why) {
  try {
    Question::from_json(parsed(text));
    FAIL() << text;
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(why)) << text;
  }
}

TEST(Questions, AreRefusedAtTheirPlaceWithTheNearestName) {
  const std::string head = R"({"schema": "tandem-question-1", "model": "lenet5", "system": "dgx1-v100",)";
  expect_refused(head + "\n  \"batchh\": 3}",
                 "q.json:2:13: a question has no \"batchh\". Did you mean batch");
  expect_refused(head + "\n  \"batch\": 0}", "q.json:2:12: batch: 0 is outside 1");
  expect_refused(head + "\n  \"batch\": true}", "q.json:2:12: \"batch\" is a number");
  expect_refused(head + "\n  \"batch\": [1]}", "takes one value");
  expect_refused(head + "\n  \"staged\": 1}", "q.json:2:13");
  expect_refused(head + "\n  \"precision\": \"fp23\"}", "q.json:2:16: precision");
  expect_refused(head + "\n  \"scheme\": \"allreduced\"}", "q.json:2:13");
  expect_refused(head + "\n  \"devices\": [1,\n 1]}", "q.json:3:2: devices: 1 is there twice");
  expect_refused(head + "\n  \"set\": [\"nodes=2\",\n \"nodes\"]}", "q.json:3:2: set: \"nodes\" is not");
  expect_refused(head + "\n  \"set\": [\"nodes=2\",\n \"nodes=x\"]}", "q.json:3:2: set nodes=x: ");
  expect_refused(head + "\n  \"with\": [\"1 lenet5\",\n \"1 lenet6\"]}", "q.json:3:2: with: no model");
  expect_refused(head + "\n  \"devices\": []}", "q.json:2:");
  expect_refused(head + "\n  \"epochs\": 3, \"tokens\": 4}", "two targets");
  expect_refused(R"({"schema": "tandem-question-1", "model": "lenet6", "system": "dgx1-v100"})",
                 "q.json:1:42: no model \"lenet6\". Did you mean lenet5");
  expect_refused(R"({"schema": "tandem-question-2"})", "is no question");
  expect_refused(R"({"schema": "tandem-question-1", "system": "dgx1-v100"})", "model");
  expect_refused(R"({"schema": "tandem-reports-2", "reports": []})", "no report");
}

TEST(Questions, OpenTheirDataOnce) {
  Hooks hooks;
  int opened = 0;
  hooks.open_data = [&](const std::string&, const Graph&, Loading& loading) {
    ++opened;
    loading.decoded = true;
  };
  const Question q = Question::of(
      {{"model", "lenet5"}, {"system", "dgx1-v100"}, {"data", "digits"}, {"devices", "2"}}, hooks);
  EXPECT_TRUE(q.with({{"batch", "8"}}).loading.decoded) << "whoever asks on needs no way to open it";
  EXPECT_EQ(opened, 1);
  EXPECT_THROW(q.with({{"data", "others"}}), UsageError);
}

/// A model or machine that a question holds whole is refused where its fault is, not where it begins.
TEST(Questions, AreRefusedInsideTheDocumentsThatTheyHold) {
  expect_refused(
      "{\"schema\": \"tandem-question-1\", \"system\": \"local\",\n"
      " \"model\": {\"name\": \"m\", \"inputs\": {\"x\": [1, 4, 4]},\n"
      "  \"layers\": [\n"
      "    {\"name\": \"a\", \"type\": \"relu\"},\n"
      "    {\"name\": \"b\", \"type\": \"rely\"}]}}",
      "q.json:5:");
  expect_refused(
      "{\"schema\": \"tandem-question-1\", \"model\": \"lenet5\",\n"
      " \"system\": {\"extends\": \"dgx1-v100\",\n"
      "  \"host\": {\"cores\": \"many\"}}}",
      "q.json:3:");
}

TEST(Questions, HaveTheFallbacksOfTheirTable) {
  const Question q = Question::of({{"model", "lenet5"}, {"system", "dgx1-v100"}});
  for (const Option& option : question_options()) {
    if (option.fallback.empty()) continue;
    const Question said = q.with({{std::string(option.name), std::string(option.fallback)}});
    EXPECT_EQ(text_of(predict(said, Depth::report)), text_of(predict(q, Depth::report))) << option.name;
  }
}

/// A thousand of them, most unlike each other.
std::vector<Question> thousand() {
  const Question base = Question::of({{"model", "lenet5"}, {"system", "dgx1-v100"}});
  std::vector<Question> out;
  for (const char* scheme : {"allreduce", "pytorch-ddp", "parameter-server", "zero:stage=2"}) {
    for (int64_t batch = 1; batch <= 50; ++batch) {
      for (const char* devices : {"1", "2", "4", "5", "8"}) {
        if (out.size() < 1000)
          out.push_back(
              base.with({{"scheme", scheme}, {"batch", std::to_string(batch)}, {"devices", devices}}));
        out.back().timeline = false;
      }
    }
  }
  return out;
}

TEST(Questions, AreAnsweredByAHundredThreadsAsOneByOne) {
  const std::vector<Question> all = thousand();
  std::vector<std::string> alone, together(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    alone.push_back(text_of(predict(all[i], i % 50 == 0 ? Depth::full : Depth::report)));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 100; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < all.size(); i += 100)
        together[i] = text_of(predict(all[i], i % 50 == 0 ? Depth::full : Depth::report));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
// Published runs (calibration/data/runs): what they name exists, and their figures agree with each other.
#include <gtest/gtest.h>

#include "answers/question.h"
#include "base/data.h"
#include "plan/date.h"

namespace tandem::tests {
namespace {

using namespace plan;

void expect_sound(const Json& run) {
  const std::string name = run.at("name").as_text();
  run.only({"name",
            "model",
            "adapter",
            "system",
            "devices",
            "scheme",
            "batch",
            "precision",
            "recompute",
            "sequence",
            "family",
            "recipe",
            "optimizer",
            "includes",
            "assumed",
            "step_tokens",
            "tokens",
            "device_hours",
            "minutes",
            "step_seconds",
            "tokens_per_second",
            "usd",
            "tokens_per_second_and_device",
            "date",
            "usd_per_device_hour",
            "source",
            "usd_per_node_hour",
            "note"});
  EXPECT_GT(run.at("device_hours").as_real(), 0) << name;
  EXPECT_GT(run.at("source").as_text().size(), 10u) << name;
  Date::parse(run.at("date").as_text(), run.at("date").place());
  if (run.find("minutes") != nullptr) {
    EXPECT_NEAR(run.real("minutes", 0) / 60 * run.real("devices", 0) / run.real("device_hours", 1), 1, 0.01)
        << name;
  }
  if (run.find("step_seconds") != nullptr) {
    const double steps = run.real("tokens", 0) / run.real("step_tokens", 1);
    EXPECT_NEAR(
        steps * run.real("step_seconds", 0) * run.real("devices", 0) / 3600 / run.real("device_hours", 1), 1,
        0.06)
        << name;
  }
}

TEST(Runs, NameWhatExists) {
  int predictable = 0;
  for (const std::string& file : list_data("calibration/data/runs")) {
    const Json document = Json::load(find_data("calibration/data/runs", "file", file));
    for (const Json& run : document.at("runs").items()) {
      expect_sound(run);
      if (run.find("model") == nullptr || run.find("system") == nullptr) continue;
      if (run.text("precision", "") == "fp4") continue;  // which Tandem lacks
      std::vector<std::pair<std::string, std::string>> options = {
          {"model", run.at("model").as_text()},
          {"system", run.at("system").as_text()},
          {"scheme", run.text("scheme", "pytorch-ddp")},
          {"precision", run.text("precision", "bf16")}};
      if (run.find("adapter") != nullptr) options.emplace_back("adapter", run.at("adapter").as_text());
      if (run.find("recompute") != nullptr) options.emplace_back("recompute", run.at("recompute").as_text());
      if (run.find("batch") != nullptr)
        options.emplace_back("batch", std::to_string(run.integer("batch", 1)));
      EXPECT_NO_THROW(answers::Question::of(options)) << run.at("name").as_text();
      ++predictable;
    }
  }
  EXPECT_GT(predictable, 70);
}

}  // namespace
}  // namespace tandem::tests

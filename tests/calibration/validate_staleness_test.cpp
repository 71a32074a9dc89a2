// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_staleness.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>

#include "base/data.h"

namespace tandem::tests {
namespace {

const Json& document() {
  static const Json all = Json::load(data_root() + "/calibration/data/staleness.json");
  return all;
}

/// The run with another value for `key`.
StalenessRow with(const Json& run, const std::string& key, const std::string& value) {
  std::string text = "{";
  for (const auto& [name, old] : run.members()) {
    if (name == "set" || name == "histogram") {
      std::string members;
      for (const auto& [k, v] : old.members())
        members += fmt::format("{}\"{}\": {}", members.empty() ? "" : ", ", k,
                               name == "set" ? "\"" + (k == key ? value : v.as_text()) + "\""
                                             : fmt::format("{}", v.as_real(0, 1)));
      text += fmt::format("\"{}\": {{{}}},", name, members);
    } else if (name == key) {
      text += fmt::format("\"{}\": {},", name, value);
    } else if (old.kind() == Json::Kind::text) {
      text += fmt::format("\"{}\": \"{}\",", name, old.as_text());
    } else {
      text += fmt::format("\"{}\": {},", name, old.as_real(0));
    }
  }
  text.back() = '}';
  return validate_staleness_run(Json::parse(text, "run"));
}

TEST(ValidateStaleness, TheSpreadThatARunGivesIsTheNearestToItsHistogram) {
  int gave = 0;
  for (const Json& run : document().at("runs").items()) {
    if (run.find("gives") == nullptr) continue;
    ++gave;
    const double own = run.at("jitter").as_real(0), nearest = validate_staleness_run(run).distance;
    for (const double step : {-0.01, 0.01}) {
      EXPECT_GE(with(run, "jitter", fmt::format("{}", own + step)).distance, nearest)
          << run.at("name").as_text() << " with jitter " << own + step;
    }
  }
  EXPECT_EQ(gave, 4);
}

TEST(ValidateStaleness, RunsOfOneKindHaveTheSpreadThatOneOfThemGave) {
  std::map<std::string, std::set<double>> spreads;
  for (const Json& run : document().at("runs").items()) {
    const std::string name = run.at("name").as_text();
    if (run.find("histogram") == nullptr) continue;
    const std::string kind = name.starts_with("BCD_") ? name.substr(name.rfind('_')) : "overparam";
    spreads[kind].insert(run.at("jitter").as_real(0));
  }
  EXPECT_EQ(spreads.size(), 4u);
  for (const auto& [kind, values] : spreads) EXPECT_EQ(values.size(), 1u) << kind;
}

TEST(ValidateStaleness, RunsThatGaveAreNoCases) {
  const std::vector<StalenessRow> rows{{"a", "s", "x", 8, "jitter", 7, 70, 0.9},
                                       {"b", "s", "x", 8, "", 7, 7.07, 0.1},
                                       {"c", "s", "x", 8, "", 7, 7, 0.2}};
  EXPECT_THAT(staleness_markdown(rows), testing::HasSubstr("| s | 1 | 2 | +1.0 % | 0.15 | 0.20 |"));
}

}  // namespace
}  // namespace tandem::tests

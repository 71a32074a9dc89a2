// SPDX-License-Identifier: Apache-2.0
// Which figures were set on published rates is collected from the data files.
#include "calibration/validate/fitted.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/data.h"
#include "base/json.h"

namespace tandem::tests {
namespace {

TEST(Fitted, ListsPresetsSystemsCurvesAndLibraries) {
  const auto all = fitted_constants();
  const auto count = [&](const std::string& folder) {
    return std::count_if(all.begin(), all.end(),
                         [&](const FittedConstant& c) { return c.file.starts_with(folder); });
  };
  EXPECT_GT(count("schemes/presets/"), 0);
  EXPECT_GT(count("topologies/systems/"), 0);
  EXPECT_GT(count("calibration/profiles/stock.json"), 0);
  EXPECT_GT(count("calibration/profiles/links.json"), 0);
  for (const FittedConstant& c : all) {
    EXPECT_FALSE(c.name.empty()) << c.file;
    EXPECT_FALSE(c.rows.empty()) << c.file << ' ' << c.name;
  }
}

/// PRACE Table 8 on 64 devices gave the storage of lisa-1080ti, so it must not judge its prediction.
TEST(Fitted, TheRowThatGaveAStorageIsMarked) {
  const Json document = Json::load(find_data("calibration/data/published", "published table", "seeds"));
  const auto& series = document.at("series").items();
  EXPECT_TRUE(std::any_of(series.begin(), series.end(), [](const Json& s) {
    return s.at("system").as_text() == "lisa-1080ti" && s.find("gives") != nullptr &&
           s.at("gives").find("64") != nullptr;
  }));
}

}  // namespace
}  // namespace tandem::tests

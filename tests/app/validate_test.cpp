// SPDX-License-Identifier: Apache-2.0
// tandem validate: the document, the tables beside it and the machine-readable form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/data.h"
#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

const std::string kPublished = "calibration/data/published/";

TEST(Validate, WritesPagesAndATableForEachSourceNextToTheDocument) {
  const Scratch folder;
  const std::string source = data_root() + "/" + kPublished + "pytorch_ddp_dgx1v.json";
  const auto result = tool({"validate", source, "--out", folder.file("V.md"), "--threads", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string document = slurp(folder.file("V.md"));
  EXPECT_THAT(document, HasSubstr("## Aims"));
  EXPECT_THAT(document, HasSubstr("(docs/validation/sources.md)"));
  EXPECT_EQ(document.find("docs/validation/collectives.md"), std::string::npos)
      << "of one file the rates alone";
  EXPECT_FALSE(std::filesystem::exists(folder.file("docs/validation/collectives.md")));
  EXPECT_THAT(slurp(folder.file("docs/validation/sources.md")),
              HasSubstr("(../../calibration/data/published/pytorch_ddp_dgx1v.json)"));
  EXPECT_THAT(slurp(folder.file("docs/validation/rates.md")), HasSubstr("## The 20 worst"));
  const std::string table = slurp(folder.file("calibration/validation/pytorch_ddp_dgx1v.csv"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 11) << "a header and ten rows";
}

TEST(Validate, PrintsOneDocumentWithoutOut) {
  const std::string source = data_root() + "/" + kPublished + "held_out_zenith.json";
  const auto result = tool({"validate", source});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* section : {"## Aims", "## Known gaps", "## By group", "## Sources"})
    EXPECT_THAT(result.out, HasSubstr(section));
  EXPECT_EQ(result.out.find("## Pages"), std::string::npos) << "there are none";
}

TEST(Validate, SaysInJsonWhereItStands) {
  const std::string source = data_root() + "/" + kPublished + "held_out_zenith.json";
  const auto result = tool({"validate", source, "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = Json::parse(result.out, "out");
  EXPECT_EQ(document.at("schema").as_text(), "tandem-validation-1");
  EXPECT_FALSE(document.at("aims").items().empty());
  ASSERT_EQ(document.at("rows").items().size(), 1u);
  EXPECT_TRUE(document.at("rows").items()[0].at("held_out").as_bool());
}

TEST(Validate, ListsWhatWasSetOnPublishedRates) {
  const auto result = tool({"list", "constants", "--format", "csv"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("schemes/presets/"));
  EXPECT_THAT(result.out, HasSubstr("calibration/profiles/stock.json"));
}

}  // namespace
}  // namespace tandem::tests

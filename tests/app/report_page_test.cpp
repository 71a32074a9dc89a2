// SPDX-License-Identifier: Apache-2.0
// `tandem report`: which documents it takes, what it says of others, and that the page holds them whole. What
// the page shows is asked of a browser (tests/page).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The documents in a page, as its script reads them.
Json documents_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"documents\">";
  const std::size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from), "page");
}

std::string predicted(const Scratch& scratch) {
  const std::string file = scratch.file("small.json");
  const ChildResult made =
      tool(small_predict({"--quiet", "--format", "json", "--reproducible", "--out", file}));
  EXPECT_EQ(made.status, 0) << made.err;
  return file;
}

void expect_refused(const std::vector<std::string>& words, const std::string& says) {
  const ChildResult refused = tool(words);
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr(says));
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
}

TEST(ReportPage, HoldsTheDocumentsAndTheCommandBehindEachReport) {
  const Scratch scratch;
  const std::string file = predicted(scratch), page = scratch.file("page.html");
  const ChildResult made = tool({"report", file, file, "--out", page});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out, "");
  const Json all = documents_of(slurp(page));
  ASSERT_EQ(all.at("documents").items().size(), 2u);
  for (const Json& entry : all.at("documents").items()) {
    EXPECT_EQ(entry.at("file").as_text(), "small.json");
    EXPECT_TRUE(entry.at("document") == Json::load(file));
    for (const Json& command : entry.at("commands").items())
      EXPECT_EQ(command.as_text(), "tandem predict --model lenet5 --system dgx1-v100 --devices 1,2");
  }
}

TEST(ReportPage, IsOneFileThatAsksNoNetwork) {
  const Scratch scratch;
  const ChildResult made = tool({"report", predicted(scratch), "--out", "-"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("default-src 'none'"));
  EXPECT_THAT(made.out, HasSubstr("connect-src 'none'"));
  EXPECT_FALSE(std::regex_search(made.out, std::regex("(src|href)=\"(https?:|//)")));
  EXPECT_THAT(made.out, Not(HasSubstr("{{")));
  EXPECT_EQ(tool({"report", scratch.file("small.json")}).out, made.out) << "the same bytes again";
  EXPECT_EQ(tool({"report", "-"}, slurp(scratch.file("small.json"))).status, 0);
}

TEST(ReportPage, LetsNoTextOfADocumentBecomeATag) {
  const Scratch scratch;
  const std::string file = scratch.write("bad <name>.json", R"({"schema": "tandem-check-1", "cases": [],
    "machine": "</script><script>alert(1)</script>{{style}}"})");
  const ChildResult made = tool({"report", file});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, Not(HasSubstr("</script><script>alert")));
  EXPECT_THAT(made.out, HasSubstr("<title>bad &lt;name&gt;.json"));
  EXPECT_EQ(documents_of(made.out).at("documents").items()[0].at("document").at("machine").as_text(),
            "</script><script>alert(1)</script>{{style}}");
}

TEST(ReportPage, RefusesWhatIsNoDocumentOfOurs) {
  const Scratch scratch;
  const std::string good = predicted(scratch);
  expect_refused({"report", good, scratch.write("no.json", "{}")}, "no.json:1:1: a page shows what predict");
  expect_refused({"report", scratch.write("list.json", "[1]")}, "no \"schema\"");
  expect_refused({"report", scratch.write("near.json", R"({"schema": "tandem-plan-2"})")},
                 "Did you mean tandem-plan-1?");
  expect_refused({"report", scratch.write("old.json", R"({"schema": "tandem-report-1"})")}, "old.json:1:");
  expect_refused({"report", scratch.write("part.json", R"({"schema": "tandem-plan-1"})")}, "candidates");
  expect_refused({"report", scratch.write("cases.json", R"({"schema": "tandem-check-1", "cases": [3]})")},
                 "cases.json:1:");
  expect_refused({"report", scratch.write("broken.json", slurp(good).substr(0, 500))}, "broken.json:");
  expect_refused({"report", scratch.write("page.html", "<html>")}, "page.html:1:1");
  expect_refused({"report", scratch.file("missing.json")}, "missing.json");
  EXPECT_EQ(tool({"report"}).status, 2);
}

TEST(ReportPage, TakesTheFileOfASweep) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite");
  const ChildResult swept = tool({"sweep", "--model", "lenet5", "--system", "dgx1-v100", "--devices",
                                  "1,2,16", "--batch", "8,16", "--out", file, "--quiet"});
  ASSERT_EQ(swept.status, 0) << swept.err;
  const ChildResult made = tool({"report", file});
  ASSERT_EQ(made.status, 0) << made.err;
  const Json rows = documents_of(made.out).at("documents").items()[0].at("document").at("rows");
  ASSERT_EQ(rows.items().size(), 6u);
  EXPECT_EQ(rows.items()[0].at("model").as_text(), "lenet5");
  EXPECT_GT(rows.items()[0].at("samples_per_second").as_real(), 0);
  EXPECT_EQ(rows.items()[4].at("status").as_text(), "refused");
  expect_refused({"report", scratch.write("other.sqlite", std::string("SQLite format 3\0", 16) + "x")},
                 "other.sqlite");
}

TEST(ReportPage, RefusesAPlaceWhereItCannotBeWritten) {
  const Scratch scratch;
  const std::string good = predicted(scratch);
  expect_refused({"report", good, "--out", scratch.file("no/page.html")}, "there is no folder");
  expect_refused({"report", good, "--out", scratch.file("")}, "is a folder");
  EXPECT_EQ(shell("\"$0\" report " + good + " > /dev/full").status, 3);
}

}  // namespace
}  // namespace tandem::tests

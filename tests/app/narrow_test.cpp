// SPDX-License-Identifier: Apache-2.0
// Tables within 80 columns: a row stays a row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "app/console/cli.h"
#include "app/console/table.h"
#include "app/console/terminal.h"
#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

/// Lines of the output in a terminal of so many columns.
std::vector<std::string> lines_at(int columns, const std::string& arguments) {
  const ChildResult r = shell("COLUMNS=" + std::to_string(columns) + " \"$0\" " + arguments);
  EXPECT_EQ(r.status, 0) << r.err;
  std::vector<std::string> lines = base::split(r.out, '\n');
  for (const std::string& line : lines) EXPECT_LE(width(line), static_cast<std::size_t>(columns)) << line;
  return lines;
}

TEST(NarrowTables, CollectivesHaveALineASize) {
  EXPECT_LE(lines_at(80, "collective --system dgx1-v100 --sizes 1KiB..8GiB").size(), 37U);
}

TEST(NarrowTables, LogsToo) {
  const Scratch scratch;
  std::string log = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 4096\n#\n";
  for (int bytes = 1024; bytes <= 1 << 20; bytes *= 2)
    log += "  " + std::to_string(bytes) + "  " + std::to_string(bytes / 4) +
           "  float  sum  -1  35.0  0.03  0.05  0  34.0  0.03  0.05  0\n";
  const auto lines = lines_at(80, "collective --system dgx1-v100 --kind all-reduce --devices 8 --log " +
                                      scratch.write("log.txt", log));
  EXPECT_LE(lines.size(), 26U);
}

TEST(NarrowTables, LanguageModelsHaveALineACountAndOneBelow) {
  const auto lines =
      lines_at(80, "predict --model gpt2 --system dgx1-v100 --devices 1,2,4,8 --batch 1 --input synthetic");
  const auto head = std::find_if(lines.begin(), lines.end(),
                                 [](const auto& line) { return line.rfind("devices", 0) == 0; });
  ASSERT_NE(head, lines.end());
  EXPECT_THAT(*head, HasSubstr("samples/s"));
  EXPECT_THAT(*head, HasSubstr("memory/device"));
}

TEST(NarrowTables, AdviceHasNoLineThatIsTooWide) {
  const ChildResult r = shell(
      "COLUMNS=80 \"$0\" advise --model lenet5 --system dgx1-v100 --schemes allreduce --precision fp32 "
      "--global-batch 512");
  ASSERT_EQ(r.status, 0) << r.err;
  for (const std::string& line : base::split(r.out, '\n')) {
    if (line.find("tandem ") == std::string::npos) EXPECT_LE(width(line), 80U) << line;
  }
}

TEST(NarrowTables, OfAPlanOnlyCommandsAreTooWideAndCanBePasted) {
  const ChildResult r = shell(
      "COLUMNS=80 \"$0\" plan --model resnet50 --epochs 1 --systems dgx-a100 --global-batch 256 --today "
      "2026-11-29 --quiet");
  ASSERT_EQ(r.status, 0) << r.err;
  std::string command;
  for (const std::string& line : base::split(r.out, '\n')) {
    if (line.starts_with("  tandem predict "))
      command = line;
    else if (!line.starts_with("  tandem run "))
      EXPECT_LE(width(line), 80U) << line;
  }
  ASSERT_NE(command, "");
  const ChildResult pasted = shell("\"$0\" " + command.substr(9) + " --quiet");
  EXPECT_EQ(pasted.status, 0) << pasted.err;
}

TEST(NarrowTables, TwoBlanksBeforeAnythingElse) {
  app::Table table({{"number", true}, {"a"}});
  table.add({"1", "words"});
  EXPECT_EQ(table.text(true, 13), "number  a\n     1  words\n");
}

TEST(NarrowTables, LongTextsGoBelowAndBreakAfterCommas) {
  app::Table table({{"", true}, {"scheme"}, {"devices", true}, {"samples/s", true}});
  table.add({"1", "hybrid:tensor=8,pipeline=16,schedule=interleaved", "1024", "96.1"});
  EXPECT_EQ(table.text(true, 40),
            "    devices   samples/s\n1      1024        96.1\n    scheme: hybrid:tensor=8,pipeline=16,\n"
            "            schedule=interleaved\n");
}

TEST(NarrowTables, SpareColumnsAreLeftOutInOrder) {
  app::Table table(
      {{"first", true}, {"second", true, 2}, {"third", true, 1}, {"fourth", true}, {"bound by"}});
  table.add({"11111", "22", "33333", "4", "compute: convolutions"});
  EXPECT_EQ(table.text(true, 34),
            "first   second   third   fourth\n11111       22   33333        4\n    bound by compute: "
            "convolutions\n");
  EXPECT_EQ(table.text(true, 23),
            "first   second   fourth\n11111       22        4\n    bound by compute:\n             "
            "convolutions\nLeft out: third (--wide\nshows all).\n");
  EXPECT_EQ(table.text(true, 16),
            "first   fourth\n11111        4\n    bound by compute:\n             convolutions\n"
            "Left out:\nsecond, third\n(--wide shows\nall).\n");
  EXPECT_EQ(table.text(true, 0),
            "first   second   third   fourth   bound by\n11111       22   33333        4   "
            "compute: convolutions\n");
}

TEST(NarrowTables, EveryVerbWithATableHasWide) {
  for (const Verb& verb : verbs_registry().all()) {
    const auto flag = [&](std::string_view name) {
      return std::find_if(verb.flags.begin(), verb.flags.end(),
                          [&](const Option& f) { return f.name == name; });
    };
    const auto format = flag("format");
    if (format == verb.flags.end()) continue;
    const auto choices = format->choices();
    const bool table =
        verb.name != "help" && std::find(choices.begin(), choices.end(), "text") != choices.end();
    EXPECT_EQ(flag("wide") != verb.flags.end(), table) << verb.name;
  }
}

}  // namespace
}  // namespace tandem::tests

// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <gtest/gtest.h>

#include "base/data.h"
#include "base/precision.h"
#include "base/text.h"

namespace tandem::tests {
namespace {

using Type = OptionSpec::Type;

const std::vector<OptionSpec> kSpecs = {
    {.name = "bucket", .type = Type::bytes, .fallback = "25MiB", .help = ""},
    {.name = "slack", .type = Type::count, .fallback = "3", .help = "", .low = 0, .high = 10},
    {.name = "share", .type = Type::real, .fallback = "0.5", .help = "", .low = 0, .high = 1},
    {.name = "overlap", .type = Type::flag, .fallback = "on", .help = ""},
    {.name = "wait", .type = Type::time, .fallback = "1ms", .help = ""},
    {.name = "order", .type = Type::choice, .fallback = "ring", .help = "", .choices = "ring|tree"}};

Options options(const std::string& text) {
  return {kSpecs, parse_selection("x:" + text, {}).settings, "x", {}};
}

TEST(Options, FallBackToWhatIsDeclared) {
  const Options o(kSpecs, {}, "x", {});
  EXPECT_EQ(o.bytes("bucket").n, 25 << 20);
  EXPECT_EQ(o.count("slack"), 3);
  EXPECT_DOUBLE_EQ(o.real("share"), 0.5);
  EXPECT_TRUE(o.flag("overlap"));
  EXPECT_EQ(o.time("wait").ps, 1'000'000'000);
  EXPECT_EQ(o.text("order"), "ring");
  EXPECT_THROW(o.text("undeclared"), std::logic_error);
}

TEST(Options, LaterSettingsWin) {
  const Options o(kSpecs, {{"slack", "1"}, {"order", "tree"}, {"overlap", "off"}, {"slack", "2"}}, "x", {});
  EXPECT_EQ(o.count("slack"), 2);
  EXPECT_EQ(o.text("order"), "tree");
  EXPECT_FALSE(o.flag("overlap"));
  EXPECT_EQ(o.all().size(), kSpecs.size());
  EXPECT_EQ(o.all()[0].first, "bucket");
}

TEST(Options, AreCheckedWhenGiven) {
  for (const char* text : {"slack=11", "slack=-1", "slack=1.5", "slack=", "slack=nan", "share=inf", "share=2",
                           "bucket=25", "bucket=-1B", "overlap=maybe", "wait=5", "order=rnig", "bukcet=1B"}) {
    EXPECT_THROW(options(text), InputError) << text;
  }
  try {
    options("bukcet=1B");
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("Did you mean bucket?"), std::string::npos) << e.what();
  }
}

TEST(Selections, AreNameAndSettings) {
  const Selection s = parse_selection("ddp:a=1,b==2", {});
  EXPECT_EQ(s.name, "ddp");
  ASSERT_EQ(s.settings.size(), 2u);
  EXPECT_EQ(s.settings[1], (std::pair<std::string, std::string>{"b", "=2"}));
  EXPECT_TRUE(parse_selection("ddp", {}).settings.empty());
  for (const char* text : {"", ":a=1", "ddp:", "ddp:a", "ddp:=1", "ddp:a=1,,b=2"}) {
    EXPECT_THROW(parse_selection(text, {}), InputError) << text;
  }
}

TEST(Selections, TakeOtherSettings) {
  EXPECT_EQ(with_settings("ddp", "a=1,b=2"), "ddp:a=1,b=2");
  EXPECT_EQ(with_settings("ddp:a=1,b=2,c=3", "b=4,d=5"), "ddp:a=1,c=3,b=4,d=5");
  EXPECT_EQ(with_settings("ddp:a=1", ""), "ddp:a=1");
}

TEST(Selections, NameAKeyOnce) {
  try {
    parse_selection("ddp:a=1,b=2,a=1", {});
    FAIL() << "which of the two?";
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()), "\"a\" is given twice in \"ddp:a=1,b=2,a=1\"");
  }
}

TEST(Text, SplitsWithoutLosingEmptyParts) {
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
}

TEST(Precisions, HaveNamesAndSizes) {
  for (int i = 0; i < kPrecisions; ++i) {
    const auto p = static_cast<Precision>(i);
    EXPECT_EQ(parse_precision(name(p)), p);
  }
  EXPECT_EQ(element_bytes(Precision::tf32), 4);
  EXPECT_EQ(element_bytes(Precision::bf16), 2);
  EXPECT_THROW(parse_precision("fp31"), InputError);
}

TEST(DataFiles, AreFoundByNameAndSorted) {
  const auto models = list_data("models/zoo");
  EXPECT_TRUE(std::is_sorted(models.begin(), models.end()));
  ASSERT_FALSE(models.empty());
  EXPECT_EQ(find_data("models/zoo", "model", models[0]), data_root() + "/models/zoo/" + models[0] + ".json");
  EXPECT_EQ(find_data("models/zoo", "model", "./mine.json"), "./mine.json");
  EXPECT_EQ(find_data("models/zoo", "model", "ResNet50"), data_root() + "/models/zoo/resnet50.json");
  EXPECT_THROW(find_data("models/zoo", "model", "vgg17"), InputError);
  EXPECT_THROW(find_data("models/zoo", "model", ".."), InputError);
}

}  // namespace
}  // namespace tandem::tests
